# Which instruction set a file may use, by its suffix.
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ifeq ($(ARCH),x86_64)
ISA_SRC := $(wildcard src/backend/cpu/x86/*.c)
FLAGS_avx2 := -mavx2 -mfma -mf16c
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512
endif
isa_suffix = $(lastword $(subst _, ,$(basename $(notdir $(1)))))
isa_flags = $(FLAGS_$(call isa_suffix,$(1)))
