# The examples, built as a user of an installed tally builds them: `make install` into a stage, then pkg-config, shared and static.
STAGE := $(abspath $(BUILD))/stage
STAGED := $(BUILD)/examples/complete-shared $(BUILD)/examples/complete-static
STAGE_PKG = PKG_CONFIG_PATH=$(STAGE)/usr/lib/pkgconfig $(PKG_CONFIG) --define-variable=prefix=$(STAGE)/usr
EXAMPLE_CC = $(CC) -std=c11 $(WARN) $(filter -fsanitize=%,$(CFLAGS_$(CONFIG)))

tests: $(STAGED)

$(STAGE)/installed: $(BUILD)/tally $(BUILD)/libtally.a $(BUILD)/libtally.so include/tally.h mk/tally.pc.in
	rm -rf $(STAGE)
	$(MAKE) install DESTDIR=$(STAGE) PREFIX=/usr
	@touch $@

$(BUILD)/examples/%-shared: examples/%.c $(STAGE)/installed
	@mkdir -p $(@D)
	$(EXAMPLE_CC) -o $@ $< $$($(STAGE_PKG) --cflags --libs tally) -Wl,-rpath,$(STAGE)/usr/lib

$(BUILD)/examples/%-static: examples/%.c $(STAGE)/installed
	@mkdir -p $(@D)
	$(EXAMPLE_CC) -o $@ $< $$($(STAGE_PKG) --static --cflags --libs tally | sed s/-ltally/-l:libtally.a/)
