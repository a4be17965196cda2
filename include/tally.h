// tally: exact LLM inference. The public interface.
//
//     tally_model *model;      tally_model_open(&model, "models/smollm2-135m.gguf", &err);
//     tally_engine *engine;    tally_engine_open(&engine, model, &options, &err);
//     tally_generation *g;     tally_generate(engine, &request, &g, &err);
//     while (!tally_generation_done(g)) tally_engine_step(engine, NULL, &err);
//     puts(tally_generation_text(g, NULL));
//
// A model is what is on disk: configuration, tensor directory, tokenizer, chat template; no weights are in memory. An engine is a
// model loaded on a device. A session is one sequence of tokens with its cache; one call makes it equal any prefix. A generation is a
// request that the engine answers; any number of them advance together, one step at a time. No setting that makes tally faster
// (batching, chunks, threads, prefix reuse) changes an answer, but for `exact` off on NPUs.
//
// Errors: every call that can fail returns a status (0 is success) and writes one sentence into *err (NULL: dropped).
// Threads: an engine with its sessions and generations is used by one thread at a time. A model's text calls may be made by any
// thread; the calls that read its tensors (tally_engine_open, tally_inspect, tally_plan) one after the other, and the first of them
// decides whether its files are mapped.
// Memory: what a call hands out through a pointer to pointer is released by the named counterpart; other pointers are borrowed.
#ifndef TALLY_H
#define TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TALLY_API __attribute__((visibility("default")))
#else
#define TALLY_API
#endif

// ---- errors --------------------------------------------------------------------------------------------------------------

typedef enum tally_status {
    TALLY_OK,
    TALLY_BAD_ARGUMENT, // an argument or option is wrong
    TALLY_BAD_FILE,     // a file is damaged or inconsistent
    TALLY_UNSUPPORTED,  // a valid file or request needs something tally does not do
    TALLY_NOT_FOUND,    // a file, tensor or model is missing
    TALLY_IO,           // reading or writing failed
    TALLY_NO_MEMORY,    // memory ran out, or the plan does not fit
    TALLY_FULL,         // the context or the cache is full
    TALLY_NON_FINITE,   // NaN or infinity where a number is needed
    TALLY_CANCELLED,    // stopped on request
    TALLY_INTERNAL      // a mistake of tally's own
} tally_status;

typedef struct tally_error {
    tally_status code;
    char text[1024]; // one sentence, UTF-8
} tally_error;

TALLY_API const char *tally_version(void);
TALLY_API void tally_free(void *p); // what the calls below return as "owned by the caller"

// ---- models on disk ------------------------------------------------------------------------------------------------------

typedef struct tally_model tally_model;
struct tally_sampling;

// `name`: a Hugging Face folder, a .gguf file, or "org/name" in the Hugging Face cache. Reads metadata only; a folder that holds
// only tokenizer files opens too.
TALLY_API tally_status tally_model_open(tally_model **out, const char *name, tally_error *err);
TALLY_API void tally_model_close(tally_model *model);

TALLY_API int tally_model_n_vocab(const tally_model *model);        // rows of the output; 0: tokenizer only
TALLY_API int tally_model_context_length(const tally_model *model); // positions the model was made for
TALLY_API bool tally_model_has_tokenizer(const tally_model *model);
TALLY_API bool tally_model_has_chat_template(const tally_model *model);

// The sampling that the model's makers recommend (generation_config.json, GGUF keys), in *out. False: they say nothing; *out is greedy.
TALLY_API bool tally_model_sampling(const tally_model *model, struct tally_sampling *out);

// ---- text ----------------------------------------------------------------------------------------------------------------

enum {
    TALLY_ADD_SPECIAL = 1,   // put around the text what the tokenizer's file says (a BOS, say)
    TALLY_PARSE_SPECIAL = 2, // special tokens in the text become their ids
};
// Text to ids. *ids is owned by the caller (tally_free).
TALLY_API tally_status tally_tokenize(const tally_model *model, const char *text, size_t len, unsigned flags,
                                      int32_t **ids, size_t *n, tally_error *err);
// Ids to text. *text is zero-terminated valid UTF-8, owned by the caller; it may hold zero bytes.
TALLY_API tally_status tally_detokenize(const tally_model *model, const int32_t *ids, size_t n, bool skip_special,
                                        char **text, size_t *len, tally_error *err);

typedef struct tally_chat {
    const char *messages;      // JSON array of {"role": ..., "content": ...}
    const char *tools;         // JSON array or NULL
    const char *kwargs;        // JSON object or NULL: further template variables
    const char *template_text; // Jinja source instead of the model's own, or NULL
    bool no_generation_prompt;
} tally_chat;
// The prompt as text: *text zero-terminated, owned by the caller.
TALLY_API tally_status tally_chat_render(const tally_model *model, const tally_chat *chat, char **text, size_t *len,
                                         tally_error *err);
// The prompt as ids: special tokens of the template become ids, those typed in a message stay text.
TALLY_API tally_status tally_chat_tokenize(const tally_model *model, const tally_chat *chat, int32_t **ids, size_t *n,
                                           tally_error *err);

// ---- engines -------------------------------------------------------------------------------------------------------------

typedef struct tally_engine tally_engine;

// How tokens are guessed ahead and verified together (docs/speculation.md). Speed only: the output is the same in every mode.
typedef enum tally_spec_mode {
    TALLY_SPEC_DEFAULT, // of a request: the engine's mode; of an engine: TALLY_SPEC_AUTO
    TALLY_SPEC_OFF,
    TALLY_SPEC_AUTO, // drafts when that is expected to be faster, as many as pay: from the draft model if there is one, and by lookup
    TALLY_SPEC_LOOKUP, // what followed the last tokens earlier in the text, whatever it costs
    TALLY_SPEC_DRAFT,  // what the draft model would say, whatever it costs
    TALLY_SPEC_TREE,   // several continuations at once, whatever it costs
} tally_spec_mode;

typedef struct tally_speculation { // all zero: defaults
    tally_spec_mode mode;
    int draft_max;              // drafts of one step at most, 1 .. 16; 0: 16
    int draft_min;              // fewer drafts than this are not verified; 0: 1
    int lookup_min, lookup_max; // tokens that must match for a lookup, lengths tried from max to min; 0: 2 and 5
    int64_t corpus;             // tokens of finished requests that lookups may also use; 0: none
    int shadow; // every so many verify steps one position is computed again alone and compared; 0: never
} tally_speculation;

typedef struct tally_engine_options { // all zero: defaults
    int threads;                      // 0: one per physical core
    const char *cpu_level;            // "scalar", "avx2", ...; NULL: the best with the bits of "scalar"
    const char *device;               // "cpu", "ascend:0", "emu:910B3,cann=8.5" (docs/ascend.md); NULL: cpu
    const char *type;                 // "f16", "bf16": what an NPU converts weights to at load; NULL: as in the file
    const char *exact;                // NPUs: "off" lets a row's bits depend on what is computed with it; NULL: on
    const char *graph; // NPUs: "on", "off": whether captured steps are replayed; NULL: where that can be done
    int context;       // positions of the longest sequence; 0: the model's maximum, or less if memory is short
    int64_t
        cache_positions; // positions of all sequences together; 0: `sequences` x `context`, or less if memory is short
    int sequences;       // sequences expected at once; 0: 1
    int step_rows;       // rows computed in one step at most, all sequences together; 0: 512
    int chunk_rows;      // rows of one prompt in one step at most, so that a long one delays others less; 0: step_rows
    int logit_rows;      // rows of one step whose logits can be asked for (tally_session_eval's chunk); 0: 32, or 3 x
                         // `sequences` (1 x, or less than 3, if drafts are off or memory is short)
    const char *cache_k, *cache_v; // "f32", "f16", "bf16", "q8_0"; NULL: f32 for F32 checkpoints, else f16
    bool no_prefix_reuse; // do not keep blocks of finished sequences for others that start alike (results are the same)
    bool no_mmap;         // read files into memory instead of mapping them
    bool no_repack;       // pack weights when a step needs them, not when loading: less memory, slower (same results)
    bool no_fuse;         // run the operation list as the model wrote it, without passes (results are the same)
    tally_speculation speculation;
    tally_engine *
        draft; // borrowed: an engine with a smaller model of the same vocabulary, for this engine's use alone; NULL: none
    // Called while weights load; returning false cancels.
    bool (*progress)(void *user, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_user;
} tally_engine_options;

TALLY_API tally_status tally_engine_open(tally_engine **out, const tally_model *model,
                                         const tally_engine_options *options, tally_error *err);
// Closes the engine and every generation still open on it; close sessions first.
TALLY_API void tally_engine_close(tally_engine *engine);
TALLY_API int tally_engine_context(const tally_engine *engine); // positions, as decided
// Bytes of weights and of cache that a step reads which computes `rows` rows, each behind `past` positions of its own: of experts as
// many as the rows can use at most. What a speed is divided by to know the share of the memory bandwidth it took.
TALLY_API int64_t tally_engine_step_bytes(const tally_engine *engine, int rows, int past);
// Memory by purpose, in bytes; also what tally_inspect tells before loading.
typedef struct tally_memory {
    int64_t weights, cache, workspace;
    int64_t
        drafting; // what drafters of `sequences` requests of the engine's mode look up, the corpus, and what a shadow check compares
    int64_t available; // what the machine had before loading
} tally_memory;
TALLY_API void tally_engine_memory(const tally_engine *engine, tally_memory *out);

// What the device does otherwise than it might, and why, in one sentence (no graphs, say); NULL: nothing.
TALLY_API const char *tally_engine_remark(const tally_engine *engine);
// What the device has given up while it ran, and why, in one sentence (a replay it refused, say); results are the same. NULL: nothing.
TALLY_API const char *tally_engine_warning(const tally_engine *engine);

// What the engine did since it was opened, and what it holds.
typedef struct tally_stats {
    int64_t steps, rows;                    // steps run, rows computed in them
    int64_t preemptions;                    // sequences whose cache was given up and computed again
    int64_t reused_positions;               // positions taken from the cache of another sequence
    int64_t worst_wait;                     // most steps in a row that a generation able to advance was passed over
    int blocks, blocks_in_use, blocks_kept; // cache blocks: all; held by sequences; kept only for reuse
} tally_stats;
TALLY_API void tally_engine_stats(const tally_engine *engine, tally_stats *out);

// Everything known of a model as one JSON object, owned by the caller: configuration, tensors, stop ids, and the memory plan for
// the options, without loading weights.
TALLY_API tally_status tally_inspect(const tally_model *model, const tally_engine_options *options, char **json,
                                     tally_error *err);

typedef struct tally_plan_options { // what is zero: defaults
    const char *device; // a device's name ("ascend-a3") or a file that describes one (docs/plan.md); required
    int context;        // positions the decode step's rows attend to; 0: 4096, or the model's maximum if less
    int prompt;         // rows of the prefill step; 0: 512, or the context if less
    int batch;          // sequences of the decode step; 0: 1
    const char *type;   // weight type to assume ("bf16", "q4_k", ...); NULL: the checkpoint's tensors, or without any
                        // the type the configuration names
    const char *cache_k, *cache_v; // as for engines
    bool no_fuse;                  // the list as the model wrote it
    int tp;                        // ranks that share the model; the plan is of one of them; 0: 1
} tally_plan_options;

// What a prefill and a decode step cost on a described device, as one JSON object (docs/plan.md), owned by the caller. A
// configuration is enough; no weights are read.
TALLY_API tally_status tally_plan(const tally_model *model, const tally_plan_options *options, char **json,
                                  tally_error *err);

// ---- sessions: one sequence under the caller's control ---------------------------------------------------------------------

typedef struct tally_session tally_session;
typedef struct tally_generation tally_generation;

TALLY_API tally_status tally_session_open(tally_session **out, tally_engine *engine, tally_error *err);
TALLY_API void tally_session_close(tally_session *session);
TALLY_API int tally_session_length(const tally_session *session);
// Makes the session equal the prefix ids[0..n): what agrees is kept, the rest is dropped or computed.
TALLY_API tally_status tally_session_sync(tally_session *session, const int32_t *ids, int n, tally_error *err);
// Logits behind the last position, [n_vocab], borrowed until the next call on the engine. TALLY_BAD_ARGUMENT for an empty session.
TALLY_API tally_status tally_session_logits(tally_session *session, const float **logits, tally_error *err);
// Appends ids, at most `chunk` rows a step (0, or more than the engine's logit_rows: those), and hands out the logits of every
// appended position in order.
typedef tally_status tally_logits_fn(void *user, int position, const float *logits, int n_vocab);
TALLY_API tally_status tally_session_eval(tally_session *session, const int32_t *ids, int n, int chunk,
                                          tally_logits_fn *fn, void *user, tally_error *err);
// A copy that shares the past (nothing is recomputed), and the state as bytes (tokens, keys, values) that the same model (the same
// tensors, wherever its files lie) under the same cache types and on the same kind of device can
// take back.
TALLY_API tally_status tally_session_fork(tally_session **out, const tally_session *session, tally_error *err);
TALLY_API tally_status tally_session_save(const tally_session *session, void **bytes, size_t *n, tally_error *err);
TALLY_API tally_status tally_session_restore(tally_session *session, const void *bytes, size_t n, tally_error *err);
// Makes the session equal the tokens of a generation that was started from it (or from another session): prompt and output so far.
// What the generation had computed is shared, not computed again; the generation stays as it is.
TALLY_API tally_status tally_session_adopt(tally_session *session, const tally_generation *generation,
                                           tally_error *err);

// ---- generations: requests the engine answers --------------------------------------------------------------------------------

typedef struct tally_logit_bias {
    int32_t id;
    float bias; // added to the logit; -INFINITY forbids the token
} tally_logit_bias;

typedef struct tally_sampling {         // applied in this order; all zero: greedy
    float repeat_penalty;               // over prompt and output; 0 or 1: off
    float presence_penalty;             // over output
    float frequency_penalty;            // over output
    const tally_logit_bias *logit_bias; // borrowed during the generation
    int n_logit_bias;
    float temperature; // 0: greedy
    int top_k;         // 0: off
    float top_p;       // 0 or 1: off
    float min_p;       // 0: off
    uint64_t seed;
    uint32_t sample; // index of the sample among those of one request
} tally_sampling;

typedef struct tally_request {
    const int32_t *ids; // prompt, not empty; copied
    int n_ids;
    int max_tokens; // new tokens; negative: until a stop or the context ends
    tally_sampling sampling;
    const char *const *stops; // stop strings; copied
    int n_stops;
    bool ignore_eos;
    int logprobs; // alternatives to report per token; 0: none
    tally_spec_mode speculation;
    // NULL, or a session of this engine, as a conversation keeps one: it is cut to the tokens that it shares with the prompt, and the
    // generation shares their cache instead of computing it. Such a generation keeps its cache until it is closed, for
    // tally_session_adopt. Used by tally_generate only.
    tally_session *session;
} tally_request;

typedef struct tally_logprob {
    int32_t id;
    float logprob; // natural logarithm of the softmax of the model's own logits, before any sampler
} tally_logprob;

// Checks and enqueues the request. What is wrong with it is said here; what goes wrong later ends this generation only.
TALLY_API tally_status tally_generate(tally_engine *engine, const tally_request *request, tally_generation **out,
                                      tally_error *err);
TALLY_API void tally_generation_close(tally_generation *g); // also cancels
// One step of every live generation: a chunk of prompt or a token each. *idle (may be NULL) tells that none is left to advance.
TALLY_API tally_status tally_engine_step(tally_engine *engine, bool *idle, tally_error *err);

TALLY_API bool tally_generation_done(const tally_generation *g);
// NULL while it runs; "stop" (a stop id or string), "length" (max_tokens or context), "error".
TALLY_API const char *tally_generation_finish_reason(const tally_generation *g);
TALLY_API tally_status tally_generation_status(const tally_generation *g, tally_error *err); // why it ended in "error"
TALLY_API const int32_t *tally_generation_ids(const tally_generation *g, int *n); // new ids so far, a stop id excluded
// Text so far: *len bytes of whole characters, cut before a stop string, nothing that may still turn out to be part of one. Grows
// only. What stands behind *len is not text yet; once the generation is done, a zero byte stands there.
TALLY_API const char *tally_generation_text(const tally_generation *g, size_t *len);
// Of new token i: `n` entries, the chosen token first, then the `logprobs` best. NULL when not asked for.
TALLY_API const tally_logprob *tally_generation_logprobs(const tally_generation *g, int i, int *n);
typedef struct tally_timings {
    double prompt_ms, decode_ms; // from the first step to the first token; from there to the last
    int n_prompt, n_decode;      // tokens of the prompt; tokens behind the first, a stop id included
} tally_timings;
TALLY_API void tally_generation_timings(const tally_generation *g, tally_timings *out);
// What speculation did for the generation: emitted = accepted + verify_steps.
typedef struct tally_spec_counts {
    int drafted, accepted; // drafts computed by verify steps; those that became output
    int emitted;           // tokens chosen in verify steps, a stop id included
    int verify_steps;      // steps that computed drafts
    int shadow_checks;     // positions computed again alone; the first that differs ends the generation with an error
} tally_spec_counts;
TALLY_API void tally_generation_spec_counts(const tally_generation *g, tally_spec_counts *out);

// ---- measuring ---------------------------------------------------------------------------------------------------------------

// What this machine can do at best, measured here and now in about a second: bytes read from memory, and multiply-adds of the tile
// kernels on data in the first cache.
typedef struct tally_level_speed {
    const char *level;    // as tally_cpu_level names it
    double f32, bf16, q8; // multiply-adds per second, all threads together, by type of weight; q8: with quantised rows
} tally_level_speed;
typedef struct tally_machine {
    int threads;
    double read_bytes_per_s;
    double loop_s; // a parallel loop over nothing: handing it out and waiting for every thread; 0 for one thread
    int n_levels;  // measured
    tally_level_speed levels[16];
} tally_machine;
// threads 0: one per physical core. levels: "all" that this processor has, "best" (which engines take by default), or one by name;
// NULL: none, bandwidth and loops only.
TALLY_API tally_status tally_measure_machine(int threads, const char *levels, tally_machine *out, tally_error *err);

// What the operations of an engine's steps took. Steps are timed from tally_engine_trace_start to tally_engine_trace_stop; results are
// the same with and without. A loop is a part of an operation that all threads share.
typedef struct tally_op_trace { // sums over the steps
    const char *op, *label;     // kind, and the weight's name or again the kind
    int layer;                  // -1: outside of the layers
    int64_t calls;
    double seconds;
    double weight_bytes,
        cache_bytes; // of weights (packed, each read once; of experts as many as are expected) and of the cache, read
    double f32, bf16, q8; // arithmetic by what tally_level_speed names; a multiplication and an addition count as two
    int64_t loops;
    double loop_s, wake_s,
        wait_s; // in loops; over threads: until they started, and from their last task to the end of the loop
} tally_op_trace;
typedef struct tally_trace {
    int64_t steps, rows;
    double seconds; // of all operations of all steps
    int n_ops;
    const tally_op_trace *ops; // in the order in which they run
} tally_trace;
// Starts from zero, also when it was on.
TALLY_API tally_status tally_engine_trace_start(tally_engine *engine, tally_error *err);
// What was measured since the start, borrowed until the next start or the engine's end. All zero if there was no start.
TALLY_API void tally_engine_trace_stop(tally_engine *engine, tally_trace *out);

// The devices of this machine as one JSON object, owned by the caller: kernel levels of the processor and the one taken by default; libraries of NPUs that were
// looked for, and the NPUs found or why there are none.
TALLY_API tally_status tally_devices(char **json, tally_error *err);

// Kernel levels of this build, lowest first: name, one line of help, and whether this processor has it. NULL past the end.
TALLY_API const char *tally_cpu_level(int i, const char **help, bool *available);

#ifdef __cplusplus
}
#endif

#endif
