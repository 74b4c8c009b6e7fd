sh -c 'exit 42'; echo $?; sh -c 'kill -9 $$'; echo $?; nonexistent_cmd 2>/dev/null; echo $?; /etc/passwd 2>/dev/null; echo $?
exit 9
