#!/bin/bash
# Brokers that a factory keeps ready: used, killed while they wait, and what is left of them.
. "$(dirname "$0")/../lib/check"
mkdir lib && ln -s "$BUILD"/src/broker/harena-broker "$BUILD"/src/launch/harena-kernel "$BUILD"/src/image/harena-views lib/
export HARENA_LIBEXEC=$work/lib
factory=$BUILD/tests/fault_factory

timeout 120 "$factory" many >out
cat out
is 'used: all good' '' "$(grep -v '^ok' out)"
nothing_left 'used'
timeout 120 "$factory" killed >out
cat out
is 'killed: all good' '5 ' "$(grep -c '^ok' out) $(grep -v '^ok' out)"
nothing_left 'killed'
timeout 120 "$factory" stopped >out
cat out
is 'stopped: all good' '2 ' "$(grep -c '^ok' out) $(grep -v '^ok' out)"
nothing_left 'stopped'
"$factory" hang >up &
await up
sleep 0.1
kill -9 $!
nothing_left 'the program was killed'
finish
