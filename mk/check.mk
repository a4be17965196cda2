# Instruction sets that this machine lacks: their kernels are tested all the same.
#
#   make check-arm       builds for AArch64; kernel tests and whole models under qemu (scripts/deps.sh arm)
#   make check-simde     builds the x86 kernels over SIMDe, for the baseline; the same tests (scripts/deps.sh simde)
KERNEL_TESTS := tests/kernels/test_kernels_float tests/kernels/test_kernels_quant
DUMP := tests/levels/dump_logits

QEMU ?= qemu-aarch64 -cpu max
ARM_CROSS ?= aarch64-linux-gnu-
ARM_BUILD := build/aarch64
ARM_MAKE = $(MAKE) BUILD=$(ARM_BUILD) CC=$(ARM_CROSS)gcc LD=$(ARM_CROSS)ld OBJCOPY=$(ARM_CROSS)objcopy AR=$(ARM_CROSS)ar \
  PKG_CONFIG="env PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig $(PKG_CONFIG)"

# Unforced inlining: emulated instructions are functions of many lines.
SIMDE_BUILD := build/simde
SIMDE_FLAGS := -O1 -Itests/simde -Dalways_inline=unused -Wno-psabi
SIMDE_MAKE = CPPFLAGS=-DTALLY_ALL_X86_LEVELS $(MAKE) BUILD=$(SIMDE_BUILD) \
  $(foreach isa,avx2 avx512 avx512vnni amx avx512bf16,FLAGS_$(isa)="$(SIMDE_FLAGS)")

.PHONY: check-arm check-simde
check-arm: $(BUILD)/$(DUMP)
	+$(ARM_MAKE) $(ARM_BUILD)/tally $(addprefix $(ARM_BUILD)/,$(DUMP) $(KERNEL_TESTS))
	for t in $(KERNEL_TESTS); do $(QEMU) $(ARM_BUILD)/$$t || exit 1; done
	LEVELS="neon dotprod i8mm" scripts/check-levels.sh $(BUILD)/$(DUMP) "$(QEMU) $(ARM_BUILD)/$(DUMP)"

check-simde: $(BUILD)/$(DUMP)
	+$(SIMDE_MAKE) $(addprefix $(SIMDE_BUILD)/,$(DUMP) $(KERNEL_TESTS))
	for t in $(KERNEL_TESTS); do $(SIMDE_BUILD)/$$t || exit 1; done
	LEVELS="avx2 avx512 avx512vnni amx" scripts/check-levels.sh $(BUILD)/$(DUMP) $(SIMDE_BUILD)/$(DUMP)
