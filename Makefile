# tally's build. `make` leaves build/release/tally; `make help` lists the rest.
#
#   make                 the program, libtally.a, libtally.so
#   make test            builds and runs every test (what scripts/test.sh does)
#   make check-arm       tests the AArch64 kernels under qemu
#   make check-simde     tests the x86 kernels of every level over emulated instructions
#   make CONFIG=asan     any target in another configuration: release, debug, asan, ubsan, tsan
#   make check-all       all of these, and the tests under the sanitizers (an hour)
#   make emulator        the emulator of the Ascend API (mk/emulator.mk)
#   make fuzz-run        fuzzes every parser for FUZZ_SECONDS each (mk/fuzz.mk)
#   make lint            checks the rules of the house (include table, sizes, formatting, ...)
#   make install         into PREFIX (/usr/local) and LIBDIR (PREFIX/lib); DESTDIR for packagers
#   make clean           removes build/
#
# A file's suffix names its instruction set and thereby its flags (mk/isa.mk); nothing else is compiled for more than the
# architecture's baseline. No configure step: libraries come from pkg-config.
CONFIG ?= release
BUILD := build/$(CONFIG)
CC ?= cc
PKG_CONFIG ?= pkg-config
VERSION := $(shell cat VERSION)
ifneq ($(words $(CURDIR)),1)
$(error the path of this folder, $(CURDIR), holds a blank, which make takes for two names; move it)
endif

include mk/config.mk
include mk/isa.mk

LIB_SRC := $(sort $(wildcard src/*/*.c src/backend/ascend/*.c src/backend/cost/*.c src/backend/cpu/*.c src/backend/cpu/scalar/*.c $(ISA_SRC)))
CMD_SRC := $(sort $(wildcard cmd/*.c))
SUPPORT_SRC := $(sort $(wildcard tests/support/*.c))
TEST_SRC := $(sort $(wildcard tests/*/test_*.c))
obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_OBJ := $(call obj,$(LIB_SRC))
TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRC))

.PHONY: all lib test tests lint install clean help FORCE
all: $(BUILD)/tally lib
lib: $(BUILD)/libtally.a $(BUILD)/libtally.so
tests: $(TESTS) $(BUILD)/tally

help:
	@sed -n 's/^#  *make/make/p' Makefile

$(BUILD)/tally: $(call obj,$(CMD_SRC)) $(LIB_OBJ)
	$(CC) $(LDFLAGS) -o $@ $^ $(CMD_LIBS) $(LIBS)

# The program's own functions, for their unit tests.
$(BUILD)/libcmd.a: $(call obj,$(filter-out cmd/main.c,$(CMD_SRC)))
	rm -f $@ && $(AR) rcs $@ $^

# The commit that `tally bench` names beside its numbers; rewritten only when it changed.
$(BUILD)/commit.h: FORCE
	@mkdir -p $(@D)
	@echo "#define TALLY_COMMIT \"$$(git describe --always --dirty 2>/dev/null)\"" >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
FORCE:
$(BUILD)/obj/cmd/build_commit.o: $(BUILD)/commit.h
$(BUILD)/obj/cmd/build_commit.o: CPPFLAGS += -include $(BUILD)/commit.h
$(BUILD)/obj/cmd/%.o: CPPFLAGS += $(CMD_CPPFLAGS)
$(BUILD)/obj/tests/cmd/%.o: CPPFLAGS += $(CMD_CPPFLAGS)

# One relocatable object with everything but tally_* made local, so that a static link sees the public names only.
$(BUILD)/libtally.a: $(LIB_OBJ)
	$(LD) -r -o $(BUILD)/obj/libtally.o $^
	$(OBJCOPY) --wildcard --keep-global-symbol='tally_*' $(BUILD)/obj/libtally.o
	rm -f $@ && $(AR) rcs $@ $(BUILD)/obj/libtally.o

$(BUILD)/libtally.so: $(LIB_OBJ) VERSION
	$(CC) $(LDFLAGS) -shared -Wl,-soname,libtally.so.$(firstword $(subst ., ,$(VERSION))) -o $@ $(filter %.o,$^) $(LIBS)

$(BUILD)/obj/%.o: %.c Makefile mk/config.mk mk/isa.mk VERSION
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(call isa_flags,$<) -MMD -MP -c -o $@ $<

$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(call obj,$(SUPPORT_SRC)) $(BUILD)/libcmd.a $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(CMD_LIBS) $(LIBS) $(TEST_LIBS)

test: tests
	BUILD=$(BUILD) scripts/run-tests.sh $(TESTS)

lint: $(LIB_OBJ) $(call obj,$(CMD_SRC))
	BUILD=$(BUILD) tools/lint.sh

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PREFIX)/include
	install -m 755 $(BUILD)/tally $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(BUILD)/libtally.a $(DESTDIR)$(LIBDIR)/
	install -m 755 $(BUILD)/libtally.so $(DESTDIR)$(LIBDIR)/libtally.so.$(VERSION)
	ln -sf libtally.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libtally.so.$(firstword $(subst ., ,$(VERSION)))
	ln -sf libtally.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libtally.so
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBDIR@|$(patsubst $(PREFIX)/%,$${prefix}/%,$(LIBDIR))|' -e 's|@VERSION@|$(VERSION)|' mk/tally.pc.in >$(BUILD)/tally.pc
	install -m 644 $(BUILD)/tally.pc $(DESTDIR)$(LIBDIR)/pkgconfig/
	install -m 644 include/tally.h $(DESTDIR)$(PREFIX)/include/

include mk/examples.mk
include mk/emulator.mk

clean:
	rm -rf build

include mk/check.mk
include mk/fuzz.mk
include mk/check-all.mk

-include $(LIB_OBJ:.o=.d) $(call obj,$(CMD_SRC:.c=.d)) $(patsubst %.c,$(BUILD)/obj/%.d,$(wildcard tests/*/*.c) $(CMD_SRC))
