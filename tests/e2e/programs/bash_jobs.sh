#!bash
sleep 0.05 & sleep 0.1 & wait -n; echo "first $?"
wait; echo all
(exit 7) & wait $!; echo $?
arr=(a b c); echo ${#arr[@]} ${arr[1]}
diff <(echo a) <(echo b) | head -2
