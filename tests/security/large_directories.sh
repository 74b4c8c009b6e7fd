#!/bin/bash
# Host directories with very many entries, very deep ones, and slow listings: the broker's memory stays bounded, others and `harena kill` are
# served in the meantime.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/check"
chmod 755 .
many=200000
mkdir dir deep
[ "$(id -u)" = 0 ] && mount -t tmpfs -o size=400M,nr_inodes=300000 none dir 2>/dev/null && trap 'umount -l "$work/dir"; rm -rf "$work"' EXIT || many=20000
(cd dir && seq -f 'entry-with-a-longer-name-%06.0f' $many | xargs touch) || exit 1
rss() { awk '/^VmHWM/ { print $2 }' "/proc/$1/status"; }

timeout 100 "$HARENA" run --name "$tag-d" -v "$work/dir:/d" sh -c 'ls -f /d | grep -c entry; read x; ls -l /d | cksum >/dev/null; echo listed; find /d -name "*7" | wc -l; cat' <> <(:) >out 2>&1 &
run=$!
await out
broker=$(broker_of "$tag-d")
is "$many entries are listed" $many "$(head -1 out)"
is 'the broker keeps none of them' 1 $(($(rss "$broker") < 32768))
timeout 10 "$HARENA" kill "$tag-d"
wait $run

# a guest that asks for listings from six processes at once, and what another and the owner feel
cat >ask.c <<'C'
#include "attack.h"
int main(void)
{
    static char names[REQ_DATA_SIZE];
    u32 m, n = 0;
    if (find_gadget() < 0)
        return 2;
    m = mount_with("entry-with-a-longer-name-000001");
    for (int i = 0; i < 64; i++) /* the longest list of the deepest paths */
        n += 1 + sprintf(names + 1 + n, "entry-with-a-longer-name-%06d", i);
    puts("up");
    fflush(stdout);
    for (int i = 0; i < 6; i++)
        if (!fork())
            for (;;) {
                for (int k = i; k < REQ_SLOTS; k += 6) {
                    struct wire_request *q = (void *)(R_BASE + R_REQUESTS + k * (u64)R_REQUEST_STRIDE);
                    q->op = k & 1 ? WIRE_READDIR : WIRE_LOOKUP_MANY;
                    q->mount = m;
                    q->arg[0] = 0;
                    q->size = k & 1 ? 1 : 1 + n;
                    memcpy(q->data, names, 1 + n);
                    mine->req_seq[k]++;
                }
                bell(0);
            }
    sleep(60);
    return 0;
}
C
sed -i 's/^#include "attack.h"/#define _GNU_SOURCE\n#include "attack.h"/' ask.c
gcc -O1 -w -I"$src" -I"$here" -o ask ask.c && gcc -O1 -o witness "$here/witness.c" || exit 1
chmod 755 ask witness
mkdir -m 777 seen
mkfifo stop
timeout 100 "$HARENA" run --name "$tag-w" -v "$work:/w" -v "$work/seen:/seen:rw" -- /w/witness /seen/w <stop >witness.out 2>&1 &
witness=$!
exec 9>stop
rm -f out
timeout 100 "$HARENA" run --name "$tag-a" -v "$work:/w" -v "$work/dir:/d" -- /w/ask >out 2>&1 &
run=$!
await out
broker=$(broker_of "$tag-a")
sleep 5
is 'amid listings the broker stays small' 1 $(($(rss "$broker") < 32768))
begin=$(date +%s%3N)
timeout 10 "$HARENA" kill "$tag-a"
is 'and is killed at once' '0 1' "$? $(($(date +%s%3N) - begin < 2000))"
wait $run
exec 9>&-
wait $witness
echo "# killed after $(($(date +%s%3N) - begin)) ms; another sandbox meanwhile: $(cat witness.out)"
read -r _ ticks _ bad _ signals _ half most longest <witness.out
is 'another sandbox is served in time' '0 1' "$bad $((most < 200000))"

# deep: as long as a path can be; beyond that an error
(cd deep && for i in $(seq 300); do mkdir d-with-a-name && cd d-with-a-name || exit 1; done)
deep() { timeout 60 "$HARENA" run -v "$work/deep:/x:$1" sh -c 'cd /x; n=0; while cd d-with-a-name 2>/dev/null; do n=$((n + 1)); done; pwd | wc -c; '"$2"; }
is 'a deep directory' 1 "$(($(deep ro true | tail -1) > 3900))"
is 'the same, writable' done "$(deep rw 'cd ..; cd ..; echo more >new && mv new newer && rm newer && echo done' | tail -1)"
nothing_left 'large directories'
finish
