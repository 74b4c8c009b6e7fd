echo one | cat | tr a-z A-Z
seq 1 2000 | sort -rn | head -3 | awk '{s+=$1} END {print s}'
cat <<X | sed 's/a/b/g'
banana
X
for i in 1 2 3; do (exit $i); echo $?; done
trap 'echo got term' TERM; kill -TERM $$; echo after
sleep 0.1 & wait $!; echo waited $?
