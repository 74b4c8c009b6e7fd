# Thin front of meson: installs what is missing (Debian 12), builds, runs, tests.
BUILD ?= build
.PHONY: all deps run test clean compat trusted-base

all: $(BUILD)/build.ninja
	@tools/refresh $(BUILD)
	@ninja -C $(BUILD) --quiet

deps:
	@tools/deps

$(BUILD)/build.ninja:
	@tools/deps
	@meson setup $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

run: all
	@tools/demo $(BUILD)

test: all
	@tests/run $(BUILD)

clean:
	@rm -rf $(BUILD)

bench: all
	@bench/run $(BUILD)

compat:
	@tools/gen_compat.py .

# the size of what isolation rests on
trusted-base:
	@tools/trusted_base
