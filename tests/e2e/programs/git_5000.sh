export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
d=$(mktemp -d) && cd $d && git init -q -b main .
for i in $(seq 50); do mkdir d$i; for k in $(seq 100); do echo $i $k > d$i/f$k; done; done
git add . && git commit -qm all && git status --short | wc -l && git ls-files | wc -l
echo changed > d7/f9; rm d8/f1; echo new > d9/new; git status --short; git stash -q; git status --short; git stash pop -q; git diff --stat
git gc -q && git status --short && git rev-parse HEAD^{tree}; cd / && rm -rf $d
