# Instruction sets that this machine lacks: their kernels are tested all the same.
#
#   make check-arm       builds for AArch64 and runs the kernel tests and whole models under qemu (scripts/deps.sh arm)
QEMU ?= qemu-aarch64 -cpu max
ARM_CROSS ?= aarch64-linux-gnu-
ARM_BUILD := build/aarch64
ARM_MAKE = $(MAKE) BUILD=$(ARM_BUILD) CC=$(ARM_CROSS)gcc LD=$(ARM_CROSS)ld OBJCOPY=$(ARM_CROSS)objcopy AR=$(ARM_CROSS)ar \
  PKG_CONFIG="env PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig $(PKG_CONFIG)"
KERNEL_TESTS := kernels/test_kernels_float kernels/test_kernels_quant
DUMP := tests/levels/dump_logits

.PHONY: check-arm
check-arm: $(BUILD)/$(DUMP)
	$(ARM_MAKE) $(ARM_BUILD)/tally $(addprefix $(ARM_BUILD)/,$(DUMP) $(KERNEL_TESTS:%=tests/%))
	for t in $(KERNEL_TESTS); do $(QEMU) $(ARM_BUILD)/tests/$$t || exit 1; done
	scripts/check-levels.sh $(BUILD)/$(DUMP) "$(QEMU) $(ARM_BUILD)/$(DUMP)"

# The n-th allocation fails: the linker puts the test's functions in the place of the allocator's, in this one program.
comma := ,
$(BUILD)/tests/fault/test_alloc_fail: LDFLAGS += $(foreach f,malloc calloc realloc aligned_alloc strdup strndup mmap free,-Wl$(comma)--wrap=$(f))
