#!/usr/bin/env python3
"""Makes tests/golden/tokenizers: tiny byte-level BPE tokenizers with the exact pipelines of real families, and what Hugging Face
tokenizers does with nasty texts. Seeded: running it again gives the same files.

    python tools/golden/make_tokenizers.py [FAMILY...]

Per family: tokenizer.json, tokenizer_config.json, cases.json, and the same as tokenizer.gguf. A case holds text; ids (special tokens parsed, nothing added); raw
(special tokens not parsed; absent: as ids); added (with what the post-processor adds; absent: as ids); decoded and skipped (ids
back to text, with and without special tokens; absent: the text).
"""
import json
import pathlib
import random
import sys
import unicodedata

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/tokenizers"
SEED = 20261129

QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         r"|\s+(?!\S)|\s+")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]

CORPUS = [
    "The quick brown fox jumps over the lazy dog. It wasn't there, so they'll say we've seen it; I'm sure he'd know.",
    "def f(x):\n    return [i for i in range(x) if i % 2 == 0]\n\nclass A(object):\n\tpass\n",
    "int main(void) { printf(\"%d -> %s\\n\", 12345, p->name); return 0; }\r\n",
    "    for (int i = 0; i < n; i++) {\n        sum += a[i] * b[i];\n    }\n",
    "für Größe naïve café résumé Ångström",
    "こんにちは世界。これは試験です。 中文分词测试,模型推理。 한국어 문장입니다.",
    "Привет, мир! Это проверка. Γειά σου Κόσμε. ภาษาไทย हिन्दी में शब्द",
    "https://example.org/a/b?c=d&e=%20f {\"key\": [1, 2, 3.14], \"ok\": true}",
]

NASTY = [
    "", " ", "  ", "\n", "\t", "->", "(x):\n", "12345", "\u0663", "\u0661\u0662\u0663\u0664", " " * 40, " " * 40 + "x",
    "\t\t\tx\t", "a\r\nb\r\n\r\n  c", "\r", "a\u0000b", "\u0000", "\U0001F468\u200d\U0001F469\u200d\U0001F467\u200d\U0001F466 ok",
    "\U0001F44D\U0001F3FD", "\u00e9", "e\u0301", "re\u0301sume\u0301 r\u00e9sum\u00e9", "\u1e69 s\u0323\u0307 s\u0307\u0323",
    "\u212b \u2126 \ufb01 \uf900", "\u1100\u1161\u11a8 \uac01", "\u0915\u093c \u0958", "a\u0316\u0301\u0316\u0301b",
    "<|im_end|>", "a<|im_end|>b", "hi<|im_end|>\n<|im_start|>user\n", "<|im_end", "<|im_start|><|im_end|>", "a<think>b",
    "a <think> b </think>c", "<think>", "<thi", "<<think>>", "xTOOLx TOOL TOOL", "x[PAD] [PAD] \t[PAD]  y", "e\u0301<norm\u00e9>x <norme\u0301>",
    "don't DON'T we'Ll it\u2019s '\u017f 'S 'RE x'\u212a", "I'VE'd'm'T", "''s", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0e17\u0e35\u0e48",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u092e\u0947\u0902", "\u4e2d\u6587\u6d4b\u8bd5abc123\u3053\u3093\u306b\u3061\u306f\u30ab\u30bf",
    "a\u0085b \u0085", "a\u00a0b\u00a0\u00a0c", "a\u2028b\u2029", "\u3000\u3000x\u3000", "\ufeffx", "a\u200bb", "a\u180eb \u180e  \u180e", "\u1680\u2003 x", "\u202f\u205f",
    "x\u0301\u0302y \u0301 \u0301", "\u0378\u0379 \U000e0000\U0010ffff\U000fffff", "\ue000\uf8ff", "\ufffd\ufffe\uffff", "1\u00bd\u2460\u2167\U0001D7D8",
    "\u0300abc", "ABCdef GHIjkl", "!!!\n\n\n???\r\n", " !!!", "x  \n  y", "x \t\n", "\n\n\n   ", "   \n\n", "a" * 100, "ab" * 50, "\u4e2d" * 50,
    "=" * 70, "0" * 30, "3.14159e-10", "a_b-c.d/e\\f", "price=$12.50; rate=7%", "camelCase42HTTP", "\u00ad\u007f\u0080", "$\u20ac+<=>^`|~",
    "The quick brown fox jumps over the lazy dog.", "int main(void) { return p->name; }\n",
]

RANGES = [(0x20, 0x7e)] * 6 + [(0, 0x1f), (0x80, 0xff), (0x100, 0x24f), (0x2b0, 0x36f), (0x370, 0x52f), (0x590, 0x6ff), (0x900, 0x97f),
          (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x2bff), (0x3000, 0x30ff), (0x4e00, 0x9fff),
          (0xac00, 0xd7a3), (0xf900, 0xfdff), (0xfe00, 0xffff), (0x10000, 0x10fff), (0x1d400, 0x1d7ff), (0x1f300, 0x1faff), (0x20000, 0x20fff),
          (0, 0x10ffff)]
SNIPPETS = [" ", "  ", "\n", "\r\n", "\t", "'s", "'LL", "'\u017f", "\u0301", "\u0323", "\u0327", "\u0345", "<|im_end|>", "<|im_start|>", "<think>",
            "</think>", "TOOL", "[PAD]", "<norm\u00e9>", "12", "the", " return", "\u3000", "\u00a0", "\u0085", "\u200d", "\u4e2d\u6587", "->", "):\n"]


def known(cp):
    """Left out: surrogates and what this Python's Unicode (14, that of the oldest libraries tally runs with) lacks."""
    return not 0xd800 <= cp <= 0xdfff and unicodedata.category(chr(cp)) != "Cn"


def fuzz(n, seed, length=24):
    r = random.Random(seed)
    texts = []
    for _ in range(n):
        s = ""
        for _ in range(r.randint(1, 4)):
            lo, hi = r.choice(RANGES)
            for _ in range(r.randint(1, length // 3)):
                if r.random() < 0.35:
                    s += r.choice(SNIPPETS)
                cp = r.randint(lo, hi)
                if known(cp):
                    s += chr(cp)
        texts.append(s)
    return texts


def split(*patterns):
    return [pre_tokenizers.Split(Regex(p), behavior="isolated", invert=False) for p in patterns]


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def added(*texts, special):
    return [AddedToken(t, special=special, normalized=False) for t in texts]


SPECIAL = added("<|endoftext|>", "<|im_start|>", "<|im_end|>", special=True)
USER = added("<think>", "</think>", special=False)

FAMILIES = {
    # name: normalizer, pre-tokenizer, added tokens, tokenizer_config
    "qwen2": (normalizers.NFC(), split(QWEN2) + [byte_level(False)], SPECIAL + USER,
              {"add_bos_token": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
               "chat_template": "{{ messages }}"}),
    "qwen35": (normalizers.NFC(), split(QWEN35) + [byte_level(False)], SPECIAL + USER,
               {"add_bos_token": False, "bos_token": None, "eos_token": {"content": "<|im_end|>"}, "pad_token": "<|endoftext|>",
                "chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]}),
    "llama3": (None, split(LLAMA3) + [byte_level(False)],
               added("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|im_end|>", special=True),
               {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}),
    "smollm2": (None, [pre_tokenizers.Digits(individual_digits=True), byte_level(True)], SPECIAL,
                {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}),
    "deepseek": (normalizers.Sequence([]), split(*DEEPSEEK) + [byte_level(False)],
                 added("<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>", special=True)
                 + added("<\uff5cUser\uff5c>", "<think>", "</think>", special=False),
                 {"add_bos_token": True, "add_eos_token": False, "bos_token": {"content": "<\uff5cbegin\u2581of\u2581sentence\uff5c>"},
                  "eos_token": {"content": "<\uff5cend\u2581of\u2581sentence\uff5c>"}}),
    # no real family: every option of added tokens, splits that merge, two normal forms, an unknown token
    "options": (normalizers.Sequence([normalizers.NFKD(), normalizers.NFC()]),
                [pre_tokenizers.Split("-", behavior="merged_with_previous"), pre_tokenizers.Split(Regex("[<>]"), behavior="merged_with_next"),
                 pre_tokenizers.Split(Regex(r"[!?]"), behavior="contiguous"), pre_tokenizers.Split(Regex(r"\^|~"), behavior="removed"),
                 pre_tokenizers.Split(Regex(r"\p{L}+"), behavior="isolated", invert=True), pre_tokenizers.Digits(individual_digits=False),
                 pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)],
                [AddedToken("<|endoftext|>", special=True), AddedToken("<|im_end|>", special=True, normalized=True),
                 AddedToken("TOOL", single_word=True, normalized=False), AddedToken("[PAD]", lstrip=True, rstrip=True, normalized=False),
                 AddedToken("<norm\u00e9>", normalized=True), AddedToken("<think>", rstrip=True, normalized=False)],
                {"eos_token": "<|endoftext|>"}),
}


def train(name):
    normalizer, steps, extra, config = FAMILIES[name]
    tok = Tokenizer(models.BPE(ignore_merges=name == "llama3"))
    if normalizer is not None:
        tok.normalizer = normalizer
    tok.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tok.decoder = decoders.ByteLevel()
    size = 420 if name == "options" else 640
    trainer = trainers.BpeTrainer(vocab_size=size, min_frequency=1, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                  show_progress=False)
    tok.train_from_iterator(CORPUS, trainer)
    data = json.loads(tok.to_str())
    if name == "llama3":  # entries that merging never reaches, so that ignore_merges matters
        data["model"]["merges"] = [m for i, m in enumerate(data["model"]["merges"]) if i < 100 or i % 7]
    if name == "options":  # bytes without an entry, and what stands for them
        for gone in ["Â", "ð", "Ł"]:
            if gone in data["model"]["vocab"]:
                keep = [m for m in data["model"]["merges"] if gone not in "".join(m)]
                data["model"]["merges"] = keep
                data["model"]["vocab"] = {k: v for k, v in data["model"]["vocab"].items() if gone not in k}
        data["model"]["vocab"] = {k: i for i, k in enumerate(data["model"]["vocab"])}
        data["model"]["vocab"]["UNK"] = len(data["model"]["vocab"])
        data["model"]["unk_token"] = "UNK"
        data["model"]["fuse_unk"] = True
    if name in ("smollm2", "qwen2"):  # merges as older files spell them
        data["model"]["merges"] = [" ".join(m) for m in data["model"]["merges"]]
    tok = Tokenizer.from_str(json.dumps(data))
    tok.add_tokens([t for t in extra])
    tok.add_special_tokens([t for t in extra if t.special])
    if name == "llama3":
        bos = "<|begin_of_text|>"
        tok.post_processor = processors.Sequence([
            processors.ByteLevel(trim_offsets=True, use_regex=True),
            processors.TemplateProcessing(single=f"{bos}:0 $A:0", pair=f"{bos}:0 $A:0 {bos}:1 $B:1",
                                          special_tokens=[(bos, tok.token_to_id(bos))])])
    elif name != "options":
        tok.post_processor = processors.ByteLevel(trim_offsets=False, use_regex=False)
    text = tok.to_str()
    if name in ("smollm2", "qwen2"):
        data = json.loads(text)
        data["model"]["merges"] = [m if isinstance(m, str) else " ".join(m) for m in data["model"]["merges"]]
        text = json.dumps(data, ensure_ascii=False)
    if name == "qwen35":  # as the real file: the last special token stands in tokenizer_config.json only
        n = tok.get_vocab_size()
        config = dict(config, added_tokens_decoder={
            str(n): {"content": "<|audio_pad|>", "lstrip": False, "normalized": False, "rstrip": False, "single_word": False,
                     "special": True}})
        tok.add_special_tokens([AddedToken("<|audio_pad|>", special=True, normalized=False)])
    return tok, text, config


PRE = {"qwen2": "qwen2", "qwen35": "qwen35", "llama3": "llama-bpe", "smollm2": "smollm", "deepseek": "deepseek-v3"}


def write_gguf(name, tok, config, path):
    """The same tokenizer as llama.cpp's converter stores it: kinds of tokens, merges, and unused entries as padding."""
    writer = gguf.GGUFWriter(path, "qwen2")
    n = tok.get_vocab_size()
    kinds = {i: 3 if t.special else 4 for i, t in tok.get_added_tokens_decoder().items()}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(PRE[name])
    writer.add_token_list([tok.id_to_token(i) for i in range(n)] + [f"[PAD{n}]", f"[PAD{n + 1}]"])
    writer.add_token_types([kinds.get(i, 1) for i in range(n)] + [5, 5])
    writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in json.loads(tok.to_str())["model"]["merges"]])

    def id_of(key):
        v = config.get(key)
        return tok.token_to_id(v["content"] if isinstance(v, dict) else v) if v else None
    if id_of("bos_token") is not None:
        writer.add_bos_token_id(id_of("bos_token"))
    writer.add_eos_token_id(id_of("eos_token"))
    if "add_bos_token" in config:
        writer.add_add_bos_token(config["add_bos_token"])
    if "chat_template" in config and isinstance(config["chat_template"], str):
        writer.add_chat_template(config["chat_template"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(name):
    tok, text, config = train(name)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n")
    if name in PRE:
        write_gguf(name, tok, config, folder / "tokenizer.gguf")
    whole = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **{
        k: (v["content"] if isinstance(v, dict) and "content" in v else v) for k, v in config.items()
        if k not in ("chat_template", "added_tokens_decoder")})
    rng = SEED + sum(map(ord, name))
    cases = []
    texts = NASTY + fuzz(120 if name != "options" else 200, rng)
    if name == "qwen35":
        texts.append("x<|audio_pad|>y")
    if name == "options":
        texts += ["a-b--c-", "-<a>>b<", "a!!b?!c", "a^b~~c^", "^", "~~", "a1b22 333", "x TOOL", "TOOLS", "\u00e9TOOL", "[PAD][PAD]", " [PAD]<think>  [PAD] "]
    for t in texts:
        tok.encode_special_tokens = False
        ids = tok.encode(t, add_special_tokens=False).ids
        case = {"text": t, "ids": ids}
        with_added = whole(t, add_special_tokens=True)["input_ids"] if "audio_pad" not in t else ids
        if with_added != ids:
            case["added"] = with_added
        tok.encode_special_tokens = True
        raw = tok.encode(t, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        if raw != ids:
            case["raw"] = raw
        if name == "options":  # tokenizers runs the content of added tokens through the byte decoder; tally keeps it verbatim
            cases.append(case)
            continue
        back = tok.decode(ids, skip_special_tokens=False)
        if back != t:
            case["decoded"] = back
        skipped = tok.decode(ids, skip_special_tokens=True)
        if skipped != t:
            case["skipped"] = skipped
        cases.append(case)
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
    (folder / "cases.json").write_text("[\n" + lines + "\n]\n")
    print(name, tok.get_vocab_size(), len(cases))


if __name__ == "__main__":
    for family in sys.argv[1:] or FAMILIES:
        make(family)
