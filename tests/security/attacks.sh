#!/bin/bash
# The corpus of attacks: every case of attacks.list is tried, and what comes of it must be what stands there. Guest programs are in
# attack.c; the last part is done from outside: what a sandbox shows, leaves behind, or makes of hostile files.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/check"
chmod 755 .
mkdir -m 755 bin
gcc -O1 -I"$src" -o bin/attack "$here/attack.c" && gcc -O1 -I"$src" -DREACHABLE="$(grep '^[a-z]' "$src/host/hostabi.tbl" | sed 's/.*/__NR_&,/' | tr -d '\n')" -o bin/attack_host "$here/attack_host.c" &&
  gcc -O1 -o bin/witness "$here/witness.c" && gcc -O1 -o bin/deny "$here/deny.c" && gcc -O1 -o bin/swap "$here/swap.c" ||
  { echo 'needs gcc'; exit 77; }
: >got
got() { echo "$1 $2" >>"$work/got"; } # NAME OUTCOME
held() { local n=$1; shift; if "$@"; then got "$n" refused; else got "$n" BROKEN; fi; } # the command says that it held
prefix() { sed "s|^|$1/|" >>"$work/got"; }
h() { timeout 60 "$HARENA" "$@"; }

# ---- directories: read-only, with an overlay, writable; the secret lies beside them ----
for m in ro ov rw; do
  mkdir -p $m/d
  echo hello >$m/marker
  cp $m/marker $m/marker-$m
  echo x >$m/d/file
  ln -s .. $m/link-up
  ln -s ../.. $m/d/link-up2
  ln -s ../secret $m/link-secret
  ln -s "$work/secret" $m/link-abs
  ln -s / $m/link-root
  ln -s /proc $m/link-proc
  ln -s /proc/self/root $m/link-magic
  cp /bin/true $m/set-id; chmod 6755 $m/set-id
  mkfifo $m/fifo
  mknod $m/device c 10 62 2>/dev/null
  python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' $m/socket
done
echo "the outside's secret" >secret
truncate -s 1G ro/big
chmod -R a+rX ro ov rw bin secret
rm rw/set-id
volumes=(-v "$work/bin:/w" -v "$work/ro:/ro" -v "$work/ov:/ov:overlay" -v "$work/rw:/rw:rw")
snapshot() { find ro ov secret -printf '%p %s %m %U %n %T@ %C@ %l\n' | sort; }
snapshot >before

# ---- witnesses: another sandbox and a process of the host, at work while the attacks go on ----
mkdir -m 777 seen
mkfifo stop-w stop-h
h2() { timeout 900 "$HARENA" "$@"; }
h2 run --name "$tag-w" -v "$work/bin:/w" -v "$work/seen:/seen:rw" -- /w/witness /seen/w <stop-w >witness-w 2>&1 &
witness_w=$!
bin/witness "$work/seen/h" <stop-h >witness-h 2>&1 &
witness_h=$!
exec 8>stop-w 9>stop-h
settle() { local j; for j in $(jobs -p); do [ "$j" = $witness_w ] || [ "$j" = $witness_h ] || wait "$j"; done; }

# ---- by guest programs, on hosts with and without namespaces and openat2 ----
guest() { # PREFIX WRAPPER...
  local p=$1 who
  shift
  chmod -R a+rwX rw
  "$@" sleep 60 & # whom the guest may not reach
  who=$!
  timeout 60 "$@" "$HARENA" run "${volumes[@]}" -- sh -c "/w/attack memory $who; /w/attack broker; /w/attack honest /ro" 2>err | prefix "$p"
  [ -s err ] && sed 's/^/# /' err
  kill $who
  snapshot >after
  held "$p/outside-unchanged" cmp before after
  held "$p/no-special-bits" [ -z "$(find rw -perm /6000 -print)" ]
  rm -rf rw/suid rw/sgid rw/new rw/d/new
}
h run "${volumes[@]}" -- /w/attack call 2>err | prefix call
h run "${volumes[@]}" -- /w/attack_host numbers 2>err | prefix call
grep '^call' err | sed 's/^/# /'
h run "${volumes[@]}" -- /w/attack_host entries 2>err | prefix entry
h run "${volumes[@]}" -- /w/attack_host own marker-ro 2>err | prefix own
snapshot >after
held own/outside-unchanged cmp before after
for what in K R D; do
  timeout 30 "$HARENA" run --name "$tag-u" --timeout 5s "${volumes[@]}" -- /w/attack_host punch $what >out 2>err
  s=$?
  held own/punch-$what [ "$(cat out)" = $what -a $s -lt 126 ] # ended by itself, by a report or by the time-out
done
guest plain env
guest no-openat2 bin/deny o
guest no-userns bin/deny u
other=61234
as_other=(setpriv --reuid $other --regid $other --clear-groups env XDG_RUNTIME_DIR="$work/run" HOME="$work/run")
root=false
[ "$(id -u)" = 0 ] && setpriv --reuid $other --regid $other --clear-groups test -x "$HARENA" && root=true
mkdir run
if $root; then
  chown $other run
  chown -R $other rw
  guest no-userns-user "${as_other[@]}" "$work/bin/deny" u
  chown -R 0 rw
fi

# ---- a name that is changed outside while it is looked up ----
mkdir -p race/in/a/b race/out
cp secret race/secret
cp secret race/out/secret
echo x >race/in/marker-race
bin/swap "$work/race/in" &
swap=$!
got race/names "$(h run -v "$work/bin:/w" -v "$work/race/in:/in:rw" -- /w/attack race-names)"
got race/names-no-openat2 "$(bin/deny o timeout 60 "$HARENA" run -v "$work/bin:/w" -v "$work/race/in:/in:rw" -- /w/attack race-names)"
kill $swap
held race/outside-unchanged cmp secret race/secret
held race/beside-unchanged cmp secret race/out/secret

# ---- what a guest process is, seen from outside ----
h run --name "$tag-p" sh -c 'sleep 20 & echo up; sleep 20' >up &
await up
broker=$(broker_of "$tag-p")
children() { for c in $(cat /proc/"$1"/task/*/children 2>/dev/null); do echo "$c"; children "$c"; done; }
fds='' caps='' seccomp=''
for p in $(children "$broker"); do
  fds+=$(for f in /proc/"$p"/fd/*; do echo "${f##*/} $(readlink "$f") $(grep -c '^flags:.*[12]$' "/proc/$p/fdinfo/${f##*/}")"; done |
    grep -v -e '^0 /memfd:K' -e '^1 /memfd:D' -e '^2 /memfd:R' -e '^[67] .*/views[^ ]* 0$' -e '^[0-9]* /[^ ]* 0$')
  caps+=$(grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/"$p"/status | grep -v 0000000000000000)
  seccomp+=$(grep -E '^(Seccomp|NoNewPrivs):' /proc/"$p"/status | grep -v -e 'Seccomp:.2' -e 'NoNewPrivs:.1')
done
$root && held outside/descriptors [ -n "$broker" -a -z "$fds" ]
held outside/capabilities [ -n "$broker" -a -z "$caps" ]
# what the host itself keeps, whatever the guest's kernel does
kept=''
for p in $(children "$broker"); do
  kept+=$(awk '/^Max (core file size|locked memory)/ && ($(NF - 2) != 0 || $(NF - 1) != 0) || /^Max open files/ && ($4 != 32 || $5 != 32)' "/proc/$p/limits" 2>/dev/null)
  [ "$(cat "/proc/$p/oom_score_adj" 2>/dev/null)" = 1000 ] || [ ! -e "/proc/$p" ] || kept+=' oom_score_adj' # it may just have ended
done
held outside/host-limits [ -n "$broker" -a -z "$kept" -a -n "$(children "$broker")" ]
held outside/broker-no-core [ "$(awk '/^Max core/ { print $5 $6 }' "/proc/$broker/limits")" = 00 ]
held outside/filter [ -n "$broker" -a -z "$seccomp" ]
held outside/broker-capabilities [ "$(grep CapEff /proc/"$broker"/status)" = "$(printf 'CapEff:\t0000000000000000')" ]
# speculation: no control weaker than this process has by the host's default; store bypass closed where the host can
spec() { awk -F '\t' -v k="$2" '$1 == k ":" { print $2 }' "/proc/$1/status"; }
weaker=''
for p in $(children "$broker"); do
  own=$(spec self Speculation_Store_Bypass) its=$(spec "$p" Speculation_Store_Bypass)
  case "$own/$its" in 'thread vulnerable/thread '*mitigated) ;; 'thread vulnerable/'*) weaker+=" $its" ;; "$its/$own") ;; *) [ "$own" = "$its" ] || weaker+=" $its" ;; esac
  [ "$(spec self SpeculationIndirectBranch)" = "$(spec "$p" SpeculationIndirectBranch)" ] || weaker+=' indirect'
done
held outside/speculation [ -n "$broker" -a -z "$weaker" ]
h kill "$tag-p"
settle
rm -f up
h run --name "$tag-p" --memory 64M sh -c 'echo up; sleep 20' >up 2>/dev/null &
await up
broker=$(broker_of "$tag-p")
# what the broker does for a guest is on the guest's account
where=$(cat /proc/"$broker"/cgroup) theirs=$(for p in $(children "$broker"); do cat /proc/"$p"/cgroup; done | sort -u)
held outside/broker-in-the-cgroup [ -n "$broker" -a "$(sort <<<"$where")" = "$theirs" ]
h kill "$tag-p"
settle

# ---- between two sandboxes ----
h run --name "$tag-p" "${volumes[@]}" sh -c 'sleep 20 & echo up; sleep 20' >up &
await up
one=$(children "$(broker_of "$tag-p")") two=$(children "$(broker_of "$tag-w")")
# shared, writable, and the same object; the vDSO's data are the host's
objects() { for p in "$@"; do awk '$2 ~ /^.w.s/ && $5 != 0 { print $4, $5 }' "/proc/$p/maps"; done 2>/dev/null | sort -u; }
files() { for p in "$@"; do for f in /proc/"$p"/fd/*; do # those open for writing
  grep -q '^flags:.*[12]$' "/proc/$p/fdinfo/${f##*/}" && stat -L -c '%d %i' "$f"; done; done 2>/dev/null | sort -u; }
objects $one >objects-one; objects $two >objects-two
files $one >files-one; files $two >files-two
if $root; then
  held between/no-shared-memory [ -s objects-one -a -s objects-two -a -z "$(comm -12 objects-one objects-two)" ]
  held between/no-shared-files [ -s files-one -a -s files-two -a -z "$(comm -12 files-one files-two)" ]
fi
h kill "$tag-p"
settle
# two made from one snapshot: the pages they share are sealed against writing
mkdir -m 755 libexec
cp "$BUILD/src/broker/harena-broker" "$BUILD/src/launch/harena-kernel" libexec/
gcc -O1 -w -I"$src" -o clone "$here/../snapshot/clone.c" "$BUILD"/src/runtime/libruntime.a "$BUILD"/src/image/libpack.a -ljansson
rm -f up
h run --name "$tag-p" sh -c 'echo up; sleep 6' >up 2>/dev/null &
await up
for i in 1 2; do HARENA_LIBEXEC=$work/libexec timeout 30 ./clone "$tag-p" $i 1 >"clone-$i" 2>&1 & done
clones='' open=''
for i in $(seq 100); do # they come when the machine has time for them, and do not stay
  for p in /proc/[0-9]*; do
    [ "$(readlink "$p/exe" 2>/dev/null)" = "$work/libexec/harena-broker" ] && [ "$(cat "$p/comm")" = harena-kernel ] || continue
    for f in "$p"/fd/*; do
      n=${f##*/}
      [ "$n" -le 2 ] && continue
      clones+=" $n"
      grep -q '^flags:.*[12]$' "$p/fdinfo/$n" || continue
      python3 -c 'import fcntl, os, sys; sys.exit(not fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), 1034) & 8)' "$f" || [ ! -e "$f" ] || open+=" $n"
    done
  done 2>/dev/null
  [ -n "$clones" ] && break
  sleep 0.1
done
$root && held between/clones-share-nothing-writable [ -n "$clones" -a -z "$open" ]
settle
for how in plain no-userns; do
  [ $how = plain ] && run=(h run) || run=("$work/bin/deny" u timeout 60 "$HARENA" run)
  got between/$how-signals "$("${run[@]}" -v "$work/bin:/w" -- /w/attack_host signals $two "$witness_h" $$ 2>/dev/null | sed 's/^0$/refused/')"
done
if $root; then # another process of the same user, which the host itself would let it reach
  "${as_other[@]}" sleep 60 &
  same=$!
  for how in u-userns ul-scope; do
    got between/no-${how#*-}-user-signals "$("${as_other[@]}" "$work/bin/deny" ${how%-*} timeout 60 "$HARENA" run -v "$work/bin:/w" -- \
      /w/attack_host signals $two "$witness_h" $$ $same 2>/dev/null | sed 's/^0$/refused/')"
  done
  kill $same
fi

# ---- what the default root shows ----
mkdir -p home/.ssh home/.aws
for f in .env .env.local id_ed25519 tls.key .netrc .ssh/id_rsa .aws/credentials; do echo 'the secret of the user' >home/$f; done
mapfile -t private < <(find /etc /usr -xdev \( -type f -o -type d \) ! -perm -o=r 2>/dev/null) # not for everybody
cd home
for how in plain no-userns; do
  [ $how = plain ] && run=(h run) || run=("$work/bin/deny" u timeout 60 "$HARENA" run)
  held shown/$how-secrets-by-name [ "$("${run[@]}" sh -c 'cat .env .env.local id_ed25519 tls.key .netrc .ssh/id_rsa .aws/credentials; ls .ssh; cd .ssh && cat id_rsa' 2>/dev/null)" = '' ]
  held shown/$how-environment [ "$(SECRET_TOKEN=hidden "${run[@]}" sh -c 'env; cat /proc/[0-9]*/environ /proc/self/cmdline' 2>/dev/null | tr '\0' '\n' | grep -a -c hidden)" = 0 ]
  held shown/$how-private-files [ "$("${run[@]}" sh -c 'for f in "$@"; do head -c 1 "$f" || ls -A "$f"; done' sh "${private[@]}" 2>/dev/null)" = '' ]
  held shown/$how-places [ "$("${run[@]}" sh -c 'cat /etc/shadow /etc/gshadow /etc/sudoers /etc/hostname /root/.* /home/*/.*; find /home /run /var/run /root /mnt /srv /boot /opt /sys/kernel/security -mindepth 1 ! -path "/run/harena*"' 2>/dev/null)" = '' ] # its kernel says in /run/harena how often it was copied
  held shown/$how-machine-id [ "$("${run[@]}" cat /etc/machine-id 2>/dev/null)" != "$(cat /etc/machine-id 2>/dev/null || echo none)" ] # one of its own
  held shown/$how-host-name [ "$("${run[@]}" sh -c 'uname -a; cat /proc/version /proc/sys/kernel/hostname; hostname' 2>/dev/null | grep -c -i -e "$(uname -r)" -e "^$(hostname)$")" = 0 ]
  held shown/$how-kernel-addresses [ "$("${run[@]}" sh -c 'cat /proc/kallsyms /proc/modules /proc/iomem /proc/kcore /dev/mem /dev/kmsg' 2>/dev/null | grep -a -c ffff)" = 0 ]
done
cd ..
for d in /proc /sys /dev; do
  h run --root $d true >out 2>&1
  s=$?
  held "shown/root-$d" [ $s != 0 ]
  h run -v $d:/x sh -c 'cat /x/self/environ /x/1/environ /x/kernel/notes /x/mem; echo x >/x/sysrq-trigger' >out 2>/dev/null
  held "shown/volume-$d" [ ! -s out ]
done

# ---- exhaustion ----
run_attack() { local n=$1; shift; h run --name "$tag-$n" "$@" >out 2>err; echo $?; }
with_volumes=(-v "$work/bin:/w" -v "$work/ro:/ro")
limits() { # PREFIX COMMAND...
  local p=$1
  shift
  timeout 60 "$@" run --memory 64M --timeout 20s "${with_volumes[@]}" -- /w/attack fill >out 2>/dev/null
  s=$?
  held "limits/$p-broker-fills-memory" [ $s = 137 -a ! -s out ]
  timeout 60 "$@" run --memory 64M --timeout 20s "${with_volumes[@]}" -- /w/attack mappings >out 2>/dev/null
  held "limits/$p-mappings" [ "$(cat out)" != many ]
  for what in processes threads; do
    timeout 60 "$@" run --pids 40 --timeout 20s "${with_volumes[@]}" -- /w/attack $what >out 2>/dev/null
    held "limits/$p-$what" [ "$(cat out)" = refused ]
  done
}
limits plain "$HARENA"
$root && limits user "${as_other[@]}" "$HARENA"
h run --memory 64M --timeout 20s "${with_volumes[@]}" -- /w/attack uncounted >out 2>/dev/null
$root && held limits/memory-not-counted [ ! -s out ]
(ulimit -n 400; h run --name "$tag-many" "${with_volumes[@]}" -- /w/attack open-many >out 2>/dev/null) &
await out
held limits/handles-then-exec [ "$(timeout 5 "$HARENA" exec "$tag-many" echo hi)" = hi ]
held limits/handles-then-kill timeout 5 "$HARENA" kill "$tag-many"
settle
rm -f out
h run --name "$tag-storm" "${with_volumes[@]}" -- /w/attack storm >out 2>/dev/null &
await out
sleep 1
held limits/storm-then-kill timeout 5 "$HARENA" kill "$tag-storm"
settle
rm -f out
h run --name "$tag-many" -- sh -c 'echo up; read x' <> <(:) >out 2>/dev/null &
await out
for i in $(seq 20); do timeout 20 "$HARENA" exec "$tag-many" sleep 10 >/dev/null 2>"refused-$i" & done
sleep 2
held limits/sessions-refused [ "$(cat refused-* | grep -c 'too many sessions')" -ge 4 ]
held limits/sessions-then-kill timeout 5 "$HARENA" kill "$tag-many"
settle
# many sandboxes at once
for i in $(seq 40); do timeout 60 "$HARENA" run --name "$tag-n$i" sleep 30 >/dev/null 2>&1 & done
for i in $(seq 100); do [ "$("$HARENA" ps | grep -c "$tag-n")" -ge 40 ] && break; sleep 0.2; done
held limits/many-sandboxes [ "$("$HARENA" ps | grep -c "$tag-n") $(h run echo one more)" = '40 one more' ]
for i in $(seq 40); do timeout 10 "$HARENA" kill "$tag-n$i" & done
settle
h run --timeout 1s sh -c 'yes & yes >&2' >/dev/null 2>&1
held limits/output-flood [ $? = 124 ]
h run --verbose --output-limit 100K --timeout 20s "${with_volumes[@]}" -- /w/attack chatter >out 2>err
held limits/verbose-flood [ "$(stat -c %s err)" -gt 50000 -a "$(stat -c %s err)" -lt 200000 ]

# ---- what the witnesses saw ----
exec 8>&- 9>&-
wait $witness_w $witness_h
for w in sandbox:witness-w host:witness-h; do
  read -r _ ticks _ bad _ signals _ half most longest <"${w#*:}"
  echo "# witness ${w%:*}: $(cat "${w#*:}")"
  held witness/${w%:*}-unharmed [ "${ticks:-0}" -gt 200 -a "${bad:-1}" = 0 -a "${signals:-1}" = 0 ]
  held witness/${w%:*}-not-held-up [ "${most:-9999999}" -lt 200000 -a "${longest:-9999999}" -lt 5000000 ]
done

# ---- what is left behind ----
for who in harena broker; do
  rm -f out
  h run --name "$tag-left" "${with_volumes[@]}" -- /w/attack storm >out 2>/dev/null &
  await out
  broker=$(broker_of "$tag-left")
  [ $who = broker ] && kill -9 "$broker" || kill -9 "$(awk '{print $4}' "/proc/$broker/stat")"
  settle
  for i in $(seq 50); do
    left >/dev/null
    [ -z "$(left)" ] && break
    sleep 0.1
  done
  held "left/after-$who-killed" [ -z "$(left)" ]
done

# ---- escape sequences ----
printable() { ! LC_ALL=C grep -q -P '[^\x09\x0a\x20-\x7e]' "$@"; }
h run -v "$work/bin:/w" -- /w/attack bad-text >out 2>&1
held escapes/report printable out
bad=$'bad\e]0;title\a\e[2J\x9b1m'
mkdir "$bad"
rm -f up
h run --name "$tag-esc" -v "$work/$bad:/x" -- bash -c 'printf up; exec -a "$1" sleep 20' bash "$bad" >up 2>/dev/null &
h run --root "$work/$bad" --name "$tag-esc2" /nothing >/dev/null 2>&1
await up
{ h ps; h ps "$tag-esc"; } >out 2>&1
held escapes/ps printable out
h kill "$tag-esc"
settle
h trace -o out -- sh -c 'cat "$1"' sh "$bad" >/dev/null 2>&1
held escapes/trace printable out

# ---- hostile archives ----
mkdir tars tools
python3 "$here/tars.py" tars
for p in lrzip grzip lzop; do printf '#!/bin/sh\necho ran >>%s/ran\n' "$work" >tools/$p; chmod 755 tools/$p; done
for t in tars/*; do
  rm -f image
  (ulimit -f 200000; PATH=$work/tools:$PATH h image build "$t" -o image) >out 2>&1
  s=$?
  outcome=refused
  if [ $s -gt 125 ] || [ -e ran ] || [ -e evil ] || [ -e tars/evil ] || ! printable out; then outcome=BROKEN; elif [ $s = 0 ]; then outcome=built; fi
  got "archive/${t##*/}" $outcome
  rm -f ran
done

# ---- the list ----
sed -e '/^#/d' -e '/^$/d' "$here/attacks.list" | sort >wanted
for p in plain no-openat2 no-userns no-userns-user; do sed -n "s|^guest/|$p/|p" wanted; done | cat - <(grep -v '^guest/' wanted) | sort >all
$root || { grep -v -e '^no-userns-user/' -e '^limits/user' -e '^limits/memory-not' -e '^between/no-shared' -e '^between/clones' -e '^between/no-[a-z]*-user' -e '^outside/descriptors' all >some; mv some all; }
sort got >sorted
diff all sorted >differ
is 'the corpus of attacks' '' "$(cat differ)"
echo "$(wc -l <sorted) cases"
nothing_left 'attacks'
finish
