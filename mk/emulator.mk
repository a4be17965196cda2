# The emulator of the Ascend API (emulator/README.md).
#
#   make emulator        build/release/emulator: libtally_emu.so, and the vendor's library names for each version of them
#
# libtally_emu.so holds everything and exports each function of the vendor's API under its name with emu_ in front. What a program
# loads, 8.1/libascendcl.so and so on, are libraries of jumps: each exports the names that library has in that version, no others.
# The folder itself holds links to the newest version.
EMU := $(BUILD)/emulator
EMU_VERSIONS := 8.1 8.5 9.1
EMU_SRC := $(sort $(wildcard emulator/core/*.c emulator/aclnn/*.c emulator/aclnn/*/*.c))
EMU_OBJ := $(call obj,$(EMU_SRC)) $(EMU)/operators.o
EMU_BASE := $(call obj,src/base/pool.c src/base/status.c src/base/fpenv.c src/base/clock.c)
EMU_TABLES := $(wildcard emulator/abi/*.txt)
EMU_LIBS := ascendcl nnopbase opapi opapi_math opapi_nn opapi_cv opapi_transformer
EMU_THIN := $(foreach v,$(EMU_VERSIONS),$(patsubst %,$(EMU)/$(v)/.stamp,$(v)))

$(BUILD)/obj/emulator/%.o: CFLAGS += -fvisibility=default
# Its arithmetic is plain loops that the compiler is to make fast; products and sums stay apart (-ffp-contract=off).
$(BUILD)/obj/emulator/aclnn/math/%.o: CFLAGS += $(if $(filter release,$(CONFIG)),-O3)

.PHONY: emulator
emulator: $(EMU)/libtally_emu.so $(EMU_THIN)

$(EMU)/operators.c: $(EMU_TABLES) emulator/abi/generate.awk
	@mkdir -p $(@D)
	awk -v want=table -f emulator/abi/generate.awk emulator/abi/operators.txt >$@
$(EMU)/operators.o: $(EMU)/operators.c emulator/aclnn/operators.h
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

# Names of the vendor's API get emu_ in front, in the objects, so that the libraries of jumps can be the only ones to have them.
$(EMU)/rename.txt: $(EMU_TABLES) emulator/abi/generate.awk
	@mkdir -p $(@D)
	awk -v want=rename -f emulator/abi/generate.awk $(EMU_TABLES) >$@
$(EMU)/libtally_emu.so: $(EMU_OBJ) $(EMU_BASE) $(EMU)/rename.txt emulator/abi/exports.map
	$(LD) -r -o $(EMU)/all.o $(EMU_OBJ)
	$(OBJCOPY) --redefine-syms=$(EMU)/rename.txt $(EMU)/all.o
	$(CC) $(LDFLAGS) -shared -Wl,-soname,libtally_emu.so -Wl,-Bsymbolic $(if $(filter -fsanitize=%,$(LDFLAGS)),,-Wl$(comma)--no-undefined) \
	  -Wl,--version-script=emulator/abi/exports.map -o $@ $(EMU)/all.o $(EMU_BASE) -lm

$(EMU)/%/.stamp: $(EMU)/libtally_emu.so emulator/abi/version.c
	@mkdir -p $(@D)
	@for lib in $(EMU_LIBS); do \
	  awk -v want=jumps -v version=$* -v lib=$$lib -f emulator/abi/generate.awk $(EMU_TABLES) >$(@D)/$$lib.S; \
	  if [ -s $(@D)/$$lib.S ]; then \
	    $(CC) $(filter-out -fsanitize=%,$(LDFLAGS)) -std=c11 -O2 -fPIC -shared -DEMU_VERSION='"$*"' -Wl,-soname,lib$$lib.so \
	      -Wl,-rpath,'$$ORIGIN:$$ORIGIN/..' -Wl,--allow-shlib-undefined -o $(@D)/lib$$lib.so $(@D)/$$lib.S emulator/abi/version.c \
	      -L$(EMU) -ltally_emu || exit 1; \
	    if [ $* = $(lastword $(EMU_VERSIONS)) ]; then ln -sf $*/lib$$lib.so $(EMU)/lib$$lib.so; fi; \
	  else rm -f $(@D)/lib$$lib.so; fi; \
	  rm -f $(@D)/$$lib.S; \
	done
	@touch $@

# Tests of the emulator are programs of the vendor's API: linked against its libraries, and against libtally_emu for tally_emu_*.
EMU_TEST_SRC := $(sort $(wildcard tests/emulator/test_*.c))
EMU_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(EMU_TEST_SRC))
EMU_TEST_SUPPORT := $(call obj,$(filter-out $(EMU_TEST_SRC),$(wildcard tests/emulator/*.c)))
$(EMU_TESTS): $(BUILD)/tests/emulator/%: $(BUILD)/obj/tests/emulator/%.o $(EMU_TEST_SUPPORT) $(EMU_THIN)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(EMU)/9.1 -Wl,--no-as-needed $(patsubst %,-l%,ascendcl nnopbase opapi) -L$(EMU) \
	  -ltally_emu -Wl,-rpath,$(CURDIR)/$(EMU)/9.1:$(CURDIR)/$(EMU) $(LIBS) $(TEST_LIBS)

-include $(patsubst %.c,$(BUILD)/obj/%.d,$(EMU_SRC) $(wildcard tests/emulator/*.c))

# Tests of the backend load the emulator themselves, as the program does.
$(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/ascend/test_*.c tests/fault/test_ascend_*.c)): | $(EMU_THIN)
