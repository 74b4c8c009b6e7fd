#!/bin/bash
# Host directories: names looked up ahead and small files read whole give what the host has, also after it changed.
here=$(cd "$(dirname "$0")" && pwd) || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail=0
check() { if [ "$2" = "$3" ]; then echo "ok - $1"; else echo "not ok - $1"; diff <(echo "$2") <(echo "$3") | head -10; fail=1; fi; }
d=$work/d; mkdir "$d" && cd "$d" || exit 1
for i in $(seq 150); do echo "text $i" >"file $i"; done
mkdir sub{1..20}; for i in $(seq 20); do echo $i >"sub$i/x"; ln -s "sub$i/x" "link$i"; done
head -c 12000 /dev/urandom >small; head -c 12160 /dev/urandom >edge; head -c 13000 /dev/urandom >large; : >empty
for i in $(seq 30); do echo "$i" >"$(printf "%0200d" "$i")"; done
mkfifo fifo; ln -s nowhere dangling; echo hidden >.hidden
text='find . -printf "%p %s %y %m\n" | grep -v "^\. " | sort; ls -lL . 2>/dev/null | wc -l; grep -r text . | sort | cksum; cksum small edge large empty; cat sub*/x | cksum
for i in 1 2 3; do stat -c "%n %s %F" * .hidden | cksum; done; test -e none || echo none'
check "listing and contents" "$(sh -c "$text" 2>&1)" "$(timeout 60 "$HARENA" run -- sh -c "$text" 2>&1)"
# what is listed can be looked at, and what is hidden is not listed
check "names of /etc" "" "$(timeout 60 "$HARENA" run -- find /etc -ls 2>&1 >/dev/null | grep -v 'Permission denied')"
mkdir -p "$work/s/.ssh/below" "$work/s/plain" && cd "$work/s" && echo key >.ssh/id_rsa && echo key >.env && echo text >plain/text || exit 1
check "names beside secrets" "$(printf '%s\n' . ./.env ./.ssh ./plain ./plain/text)" "$(timeout 60 "$HARENA" run -- sh -c 'find . -ls 2>&1 >/dev/null; find . | sort' 2>/dev/null)"
cd "$d" || exit 1
# what changes outside is seen when attributes are a second old
coproc box { timeout 60 "$HARENA" run -- sh -c 'list() { stat -c "%n %s" * | cksum; cat file* | cksum; }; list >/dev/null; echo ready; read x; sleep 1.2; list; test -e "file 7" || echo gone; cat new'; }
read -r line <&"${box[0]}"
check "started" ready "$line"
for i in 3 80 149; do echo "longer text $i" >"file $i"; done
rm "file 7"; echo fresh >new; printf 'Text 9\n' >"file 9"
echo go >&"${box[1]}"
seen=$(cat <&"${box[0]}")
check "changes outside" "$(stat -c "%n %s" * | cksum; cat file* | cksum; echo gone; cat new)" "$seen"
exit $fail
