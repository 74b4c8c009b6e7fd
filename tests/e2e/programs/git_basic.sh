export HOME=/tmp GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
d=$(mktemp -d) && cd $d
git init -q -b main r && cd r && for i in $(seq 1 50); do echo $i > f$i; done
git add . && git commit -qm one && git log --oneline | wc -l && git status --short | wc -l
echo x >> f1; git diff --stat; git commit -qam two; git rev-parse HEAD
cd .. && git clone -q r c && cd c && git log --format=%s && git gc -q && git fsck && cd / && rm -rf $d
