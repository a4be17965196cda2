# Compiler flags per configuration, and the libraries.
OBJCOPY ?= objcopy
DEPS := jansson libpcre2-8 libutf8proc
# emulator/include: our declarations of the vendor's API (cann/*.h), shared with the emulator; headers only.
override CPPFLAGS += -Iinclude -Isrc -I. -Iemulator/include -D_GNU_SOURCE -DTALLY_VERSION='"$(VERSION)"' $(shell $(PKG_CONFIG) --cflags $(DEPS))
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes $(if $(CI),-Werror)
CFLAGS_release := -O2 -g
CFLAGS_debug := -O0 -g
CFLAGS_asan := -O1 -g -fsanitize=address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
CFLAGS_ubsan := -O1 -g -fsanitize=undefined -fno-sanitize-recover=undefined
CFLAGS_tsan := -O1 -g -fsanitize=thread
CFLAGS_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=undefined
ifeq ($(CFLAGS_$(CONFIG)),)
$(error CONFIG=$(CONFIG) is not one of release, debug, asan, ubsan, tsan, fuzz)
endif
# The user's flags stand behind those of the configuration and before those that results rest on.
# -ffp-contract=off: a fused multiply-add happens where the source says fma and nowhere else (docs/exactness.md).
override CFLAGS := -std=c11 $(CFLAGS_$(CONFIG)) $(CFLAGS) -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIC -pthread $(WARN)
override LDFLAGS += $(filter -fsanitize=%,$(CFLAGS_$(CONFIG))) -pthread
LIBS += $(shell $(PKG_CONFIG) --libs $(DEPS)) -ldl -lm
# Line editing in `tally chat`, if libedit is there.
ifeq ($(shell $(PKG_CONFIG) --exists libedit 2>/dev/null && echo yes),yes)
CMD_CPPFLAGS += -DTALLY_LIBEDIT $(shell $(PKG_CONFIG) --cflags libedit)
CMD_LIBS += $(shell $(PKG_CONFIG) --libs libedit)
endif
TEST_LIBS += $(shell $(PKG_CONFIG) --libs cmocka)
