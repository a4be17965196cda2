# Fuzzing: every parser, by libFuzzer (clang). docs/testing.md tells what was found and for how long nothing was.
#
#   make fuzz                        builds build/fuzz/fuzz_NAME for every tests/fuzz/fuzz_NAME.c
#   make fuzz-run FUZZ_SECONDS=600   runs each over its corpus for so long; FUZZ_TARGETS="gguf config" names some
#   make fuzz-merge                  adds to tests/fuzz/corpus what reached something new
#
# What is found is left as build/fuzz/crash-NAME-*. tests/fuzz/test_replay runs the corpora in every test run, under any compiler.
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_TARGETS ?= $(patsubst tests/fuzz/fuzz_%.c,%,$(FUZZ_SRC))
FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
FUZZ_BUILD := build/fuzz
FUZZ_FLAGS := -timeout=20 -rss_limit_mb=2048 -close_fd_mask=3 -use_value_profile=1

.PHONY: fuzz fuzz-run fuzz-merge
fuzz:
	+$(MAKE) CONFIG=fuzz CC=$(FUZZ_CC) $(FUZZ_TARGETS:%=$(FUZZ_BUILD)/fuzz_%)

fuzz-run: fuzz
	for t in $(FUZZ_TARGETS); do \
	  mkdir -p $(FUZZ_BUILD)/corpus/$$t && \
	  $(FUZZ_BUILD)/fuzz_$$t $(FUZZ_FLAGS) -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	    -artifact_prefix=$(FUZZ_BUILD)/crash-$$t- $(FUZZ_BUILD)/corpus/$$t tests/fuzz/corpus/$$t \
	    2>$(FUZZ_BUILD)/$$t.log || { tail -40 $(FUZZ_BUILD)/$$t.log; exit 1; }; \
	  echo "$$t: $$(sed -n 's/stat::number_of_executed_units: *//p' $(FUZZ_BUILD)/$$t.log) inputs, no finding"; \
	done

# One input for each branch that no other reached, none of more than 4 KB.
fuzz-merge: fuzz
	for t in $(FUZZ_TARGETS); do \
	  mkdir -p $(FUZZ_BUILD)/corpus/$$t && $(FUZZ_BUILD)/fuzz_$$t -merge=1 -use_counters=0 -max_len=4096 -close_fd_mask=3 \
	    tests/fuzz/corpus/$$t $(FUZZ_BUILD)/corpus/$$t || exit 1; \
	done

comma := ,
ifeq ($(CONFIG),fuzz)
# No input reaches another branch of arithmetic by being told of its comparisons, which take half of a model's time.
$(BUILD)/obj/src/backend/% $(BUILD)/obj/src/engine/sampler.o $(BUILD)/obj/src/base/elementary.o: \
  CFLAGS := $(subst fuzzer-no-link$(comma),,$(CFLAGS))
# Instrumented kernels take minutes to compile and no input reaches their branches.
$(BUILD)/obj/src/backend/cpu/x86/%.o $(BUILD)/obj/src/backend/cpu/arm/%.o: CFLAGS := $(filter-out -fsanitize=% -fno-sanitize%,$(CFLAGS))
# Readers of files need no kernels, which take long to compile; what runs a model needs everything.
FUZZ_ALONE := gguf safetensors tokenizer_json template
FUZZ_PARSERS := $(filter src/base/% src/tensor/% src/file/% src/text/%,$(LIB_SRC))
$(FUZZ_ALONE:%=$(BUILD)/fuzz_%): $(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(call obj,$(FUZZ_PARSERS))
	$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)
$(BUILD)/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(call obj,$(SUPPORT_SRC)) $(BUILD)/libcmd.a $(LIB_OBJ)
	$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(CMD_LIBS) $(LIBS) $(TEST_LIBS)
else
# The targets under names of their own, in one program.
$(FUZZ_SRC:%.c=$(BUILD)/obj/%.o): CPPFLAGS += -DLLVMFuzzerTestOneInput=replay_$(patsubst fuzz_%.o,%,$(@F))
$(BUILD)/tests/fuzz/test_replay: $(BUILD)/obj/tests/fuzz/test_replay.o $(FUZZ_SRC:%.c=$(BUILD)/obj/%.o) \
  $(call obj,$(SUPPORT_SRC)) $(BUILD)/libcmd.a $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -o $@ $^ $(CMD_LIBS) $(LIBS) $(TEST_LIBS)
endif

# The n-th allocation fails: the linker puts the tests' functions (alloc_fail.c) in the place of the allocator's, in these programs.
ALLOC_FAIL_TESTS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/fault/test_*.c))
$(ALLOC_FAIL_TESTS): $(BUILD)/obj/tests/fault/alloc_fail.o
$(filter $(BUILD)/tests/fault/test_ascend_%,$(ALLOC_FAIL_TESTS)): $(BUILD)/obj/tests/fault/ascend_sweep.o
$(ALLOC_FAIL_TESTS): private override LDFLAGS += $(foreach f,malloc calloc realloc aligned_alloc strdup strndup mmap free,-Wl$(comma)--wrap=$(f))
# The whole program in a test, whose engines get a fault of the test's.
$(BUILD)/obj/tests/cmd/program.o: $(BUILD)/obj/cmd/main.o
	@mkdir -p $(@D)
	$(OBJCOPY) --redefine-sym main=tally_main $< $@
$(BUILD)/tests/cmd/test_spec_exit: $(BUILD)/obj/tests/cmd/test_spec_exit.o $(BUILD)/obj/tests/cmd/program.o \
  $(call obj,$(SUPPORT_SRC)) $(BUILD)/libcmd.a $(LIB_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) -Wl,--wrap=tally_engine_open -o $@ $^ $(CMD_LIBS) $(LIBS) $(TEST_LIBS)
