# Everything that can be checked on one machine, with one summary at the end.
#
#   make check-all       tests in release, asan (with ubsan) and tsan, fuzz corpora, lint, check-arm, check-simde
.PHONY: check-all
check-all:
	+scripts/check-all.sh
