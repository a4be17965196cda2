# Which instruction set a file may use, by its suffix.
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
ifeq ($(ARCH),x86_64)
ISA_SRC := $(wildcard src/backend/cpu/x86/*.c)
FLAGS_avx2 := -mavx2 -mfma -mf16c
FLAGS_avx512 := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mprefer-vector-width=512
FLAGS_avx512vnni := $(FLAGS_avx512) -mavx512vnni
FLAGS_amx := $(FLAGS_avx512vnni) -mamx-tile -mamx-int8
FLAGS_avx512bf16 := $(FLAGS_avx512vnni) -mavx512bf16
else ifeq ($(ARCH),aarch64)
ISA_SRC := $(wildcard src/backend/cpu/arm/*.c)
FLAGS_neon := -march=armv8-a+simd
FLAGS_dotprod := -march=armv8.2-a+dotprod
FLAGS_i8mm := -march=armv8.2-a+dotprod+i8mm
FLAGS_neonbf16 := -march=armv8.2-a+dotprod+i8mm+bf16
endif
isa_suffix = $(lastword $(subst _, ,$(basename $(notdir $(1)))))
isa_flags = $(FLAGS_$(call isa_suffix,$(1)))
