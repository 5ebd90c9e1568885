#!/bin/sh
# Stands for shardmark-rank: `fake_rank.sh case LINE --record FILE --context FILE`. The seed in the line says how to end.
# FAKE_RECORD is a finished record to copy, FAKE_LOG a file that gets a line for each start.
say() { echo "@shardmark $1"; }
if [ "$1" = memory ]; then echo '{"rank_bytes":[1073741824,2147483648],"parameter_bytes":4}'; exit 0; fi
if [ "$1" = simd ]; then echo "${SHARDMARK_SIMD:-avx2}"; exit 0; fi
if [ "$1" = check ] || [ "$1" = verify ]; then
    case "$*" in
        *refuse*)
            say '{"event":"failed","rank":0,"message":"refuse.h5: expected a readable file, got none; check it"}'
            exit 2
            ;;
        *parse*) printf "error: unexpected argument found\\n\\nFor more information, try '--help'.\\n" >&2; exit 2 ;;
    esac
    say '{"event":"check","passed":true,"used":0.25,"message":"grid 1x1x1x1: loss"}'
    case "$*" in
        *bad*) say '{"event":"check","passed":false,"used":1.5,"message":"grid 1x2x1x1: conv1.weight"}'; exit 10 ;;
        *crash*) echo "no such network"; exit 1 ;;
    esac
    exit 0
fi
seed=$(echo "$2" | sed 's/.* seed=\([0-9]*\) .*/\1/')
rank=${OMPI_COMM_WORLD_RANK:-0}
[ "$rank" = 0 ] && echo "$seed" >>"$FAKE_LOG"
host=$(cat /proc/sys/kernel/hostname)
say "{\"event\":\"started\",\"rank\":$rank,\"pid\":$$,\"host\":\"$host\"}"
finish() { cp "$FAKE_RECORD" "$4.part" && mv "$4.part" "$4" && say "{\"event\":\"done\",\"record\":\"$4\"}"; }
case $seed in
    1) say '{"event":"step","step":1,"seconds":0.25,"loss":0.5}'; finish "$@" ;;
    2) say '{"event":"check","passed":false,"used":3,"message":"loss"}'; exit 10 ;;
    3) echo "something broke" >&2; exit 7 ;;
    4) kill -9 $$ ;;
    # As the real rank program: it ends with whoever started it.
    5) exec setpriv --pdeathsig KILL sleep 1000 ;;
    6) say '{"event":"hang","rank":2,"operation":"recv","peers":[1],"seconds":5.0}'; exit 11 ;;
    7) say '{"event":"failed","rank":3,"message":"index out of bounds"}'; sleep 1000 ;;
    8) trap '' TERM INT; sleep 1000 & wait; wait ;;
    9) exit 0 ;;
    12) exit 12 ;;
    13) exit 13 ;;
    # Not before all have told that they are there.
    20) [ "$rank" = 1 ] && sleep 2 && kill -9 $$; sleep 1000 ;;
esac
