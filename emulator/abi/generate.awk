# Makes what the build needs of the tables of names in this folder (mk/emulator.mk).
#
#   -v want=table                          C: the operators with their chips and versions
#   -v want=rename                         for objcopy: "aclInit emu_aclInit", one name a line
#   -v want=jumps -v version=8.5 -v lib=ascendcl    assembly: each name of that library in that version jumps to emu_NAME
function number(v) { split(v, part, "."); return part[1] * 100 + part[2] }
function here(since, till) { return number(since) <= number(version) && (till == "-" || number(version) <= number(till)) }
function emit(name) {
    if (want == "rename") print name, "emu_" name
    if (want != "jumps") return
    print "    .globl " name "\n    .type " name ", %function\n    .p2align 4\n" name ":"
    print "#if defined(__x86_64__)\n    jmp *emu_" name "@GOTPCREL(%rip)\n#else\n    b emu_" name "\n#endif"
    print "    .size " name ", . - " name
}
function in_opapi(repo) { return lib == "opapi" || (number(version) >= number("8.5") && lib == "opapi_" repo) }
BEGIN {
    # A library without any names yet is still there; the split ones since 8.5.
    if (want == "jumps" && (lib !~ /^opapi_/ || number(version) >= number("8.5"))) print "    .section .note.GNU-stack,\"\",%progbits\n    .text"
    if (want == "table") print "#include \"emulator/aclnn/operators.h\"\n\nconst emu_operator emu_operators[] = {"
}
/^#/ || NF == 0 { next }
FILENAME ~ /operators\.txt$/ {
    if (NF != 9) { print FILENAME ":" FNR ": 9 columns wanted, not " NF >"/dev/stderr"; exit 1 }
    if (want == "table") {
        mask = 0
        for (i = 0; i < 5; i++) if ($(5 + i) == "Y") mask += 2 ^ i
        till = $4 == "-" ? 0 : number($4)
        printf "    {\"%s\", \"%s\", %d, %d, %d},\n", $1, $2, number($3), till, mask
    } else if (want != "jumps" || (here($3, $4) && in_opapi($2))) {
        emit($1); emit($1 "GetWorkspaceSize")
    }
}
FILENAME ~ /opfunctions\.txt$/ { if (want != "jumps" || (here($3, $4) && in_opapi($2))) emit($1) }
FILENAME ~ /functions\.txt$/ && FILENAME !~ /opfunctions/ { if (want != "jumps" || (lib == $2 && here($3, $4))) emit($1) }
END { if (want == "table") print "    {0, 0, 0, 0, 0},\n};" }
