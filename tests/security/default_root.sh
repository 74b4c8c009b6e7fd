#!/bin/bash
# What the default root must not show: places of secrets, each with a file everybody may read, so that the allow-list keeps it and not its
# mode. They are made in a mount namespace of this test, below empty file systems over the machine's own directories.
# A line each: what must not be reachable, by root and by a user of the machine; then the ways round: links, bind mounts, the names.
here=$(cd "$(dirname "$0")" && pwd)
if [ "$1" != inside ]; then
  [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null || { echo 'needs root and a mount namespace'; exit 77; }
  HARENA=$(readlink -f "$HARENA") exec unshare -m --propagation private bash "$0" inside
fi
for d in "$here" "$HARENA"; do
  case $d in /home/*|/root/*|/var/*|/tmp/*|/srv/*|/opt/*|/mnt/*|/media/*|/boot/*|/run/*) echo 'source or build lie where the fixtures go'; exit 77 ;; esac
done
etc=$(mktemp -d)
mount -t tmpfs etc "$etc" && cp -a /etc/. "$etc/" && mount --move "$etc" /etc || { echo 'cannot put a file system over /etc'; exit 77; }
for d in /home /root /var /tmp /srv /opt /mnt /media /boot /run; do [ -d $d ] && mount -t tmpfs none $d; done
mkdir -p /var/run /run/user
. "$here/../lib/check"
user=2345
echo "u:x:$user:$user::/home/u:/bin/sh" >>/etc/passwd

secrets='
/home/other/.profile /home/other/notes /home/u/notes /home/u/.profile /root/notes /root/.bash_history
/home/u/.ssh/id_rsa /home/u/.ssh/config /home/u/.ssh/known_hosts /root/.ssh/authorized_keys
/home/u/.gnupg/private-keys-v1.d/key /home/u/.gnupg/pubring.kbx
/home/u/.aws/credentials /home/u/.aws/config /home/u/.config/gcloud/credentials.db /home/u/.config/gcloud/x /home/u/.azure/accessTokens.json
/home/u/.kube/config /home/u/.docker/config.json /home/u/.config/gh/hosts.yml /home/u/.config/rclone/rclone.conf /home/u/.config/doctl/config.yaml
/home/u/.npmrc /home/u/.pypirc /home/u/.cargo/credentials /home/u/.cargo/credentials.toml /home/u/.netrc /home/u/.gem/credentials
/home/u/.config/pip/pip.conf /home/u/.pip/pip.conf /etc/pip.conf /etc/npmrc /etc/apt/auth.conf /etc/apt/auth.conf.d/private.conf
/etc/apt/sources.list.d/x.list /home/u/.m2/settings.xml /home/u/.gradle/gradle.properties /home/u/.git-credentials /home/u/.config/git/credentials
/home/u/.bash_history /home/u/.zsh_history /home/u/.python_history /home/u/.psql_history /home/u/.local/share/fish/fish_history
/home/u/.mozilla/firefox/p/logins.json /home/u/.config/google-chrome/Default/Cookies /home/u/.config/chromium/Default/Login_Data
/home/u/.thunderbird/p/key4.db /home/u/.local/share/keyrings/login.keyring /home/u/.password-store/a.gpg
/etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow- /etc/passwd- /etc/group- /etc/sudoers /etc/sudoers.d/x /etc/security/opasswd
/etc/ssh/ssh_host_rsa_key /etc/ssh/ssh_host_ed25519_key /etc/ssh/sshd_config /etc/wireguard/wg0.conf
/etc/NetworkManager/system-connections/home.nmconnection /etc/wpa_supplicant/wpa_supplicant.conf /etc/ppp/chap-secrets /etc/ipsec.secrets
/etc/letsencrypt/live/x/privkey.pem /etc/ssl/private/server.key /etc/pki/tls/private/server.key /etc/pki/private/x /etc/krb5.keytab
/etc/mysql/debian.cnf /etc/postfix/sasl_passwd /etc/openvpn/x.conf /etc/docker/key.json /etc/containers/auth.json /etc/kubernetes/admin.conf
/etc/rancher/k3s/k3s.yaml /etc/cups/printers.conf /etc/fstab /etc/crypttab /etc/machine-id /etc/environment /etc/samba/x.cred /etc/cron.d/x
/run/secrets/token /run/user/1000/keyring/control /run/lock/x /run/docker.sock /run/containerd/x /run/systemd/x /run/credentials/x/y
/var/run/secrets/kubernetes.io/serviceaccount/token /var/lib/kubelet/x /var/lib/docker/x /var/lib/sss/x /var/backups/shadow.bak /var/log/auth.log
/var/mail/u /var/spool/cron/crontabs/u /var/lib/postgresql/x /var/www/.env /var/tmp/leftover /var/cache/x /tmp/leftover /tmp/ssh-XX/agent.1
/srv/data /opt/app/.env /mnt/disk/x /media/stick/x /boot/x /.snapshots/1/snapshot/etc/shadow /home/.snapshots/1/u/.ssh/id_rsa'
made=
for p in $secrets; do
  case $p in /.snapshots/*) [ -d /.snapshots ] || { mkdir /.snapshots && made=1; }; mountpoint -q /.snapshots || mount -t tmpfs none /.snapshots ;; esac
  mkdir -p "${p%/*}" && rm -f "$p" && echo "SECRET of $p" >"$p" || echo "not ok - cannot make $p"
done
[ -n "$made" ] && trap 'umount /.snapshots; rmdir /.snapshots; rm -rf "$work"' EXIT
chmod -R a+rwX /home /root /srv /opt /mnt /media /boot /run /tmp 2>/dev/null
find /etc -newer /etc/pip.conf -exec chmod a+rX {} + 2>/dev/null
chmod 755 /etc/ssl/private /etc/ssh /etc/pki/tls/private 2>/dev/null
chown -R $user:$user /home/u
project=/home/u/project
mkdir -p $project/sub $project/bound $project/.ssh
cd $project || exit 1
listed=$(echo $secrets)
sandbox() { timeout 120 "${as[@]}" "$HARENA" run "$@" 2>err; }
every() { # WHO
  local who=$1 got
  # by name, one line each in the output
  got=$(sandbox sh -c 'for p in "$@"; do cat "$p" 2>/dev/null; done' sh $listed /proc/1/environ /proc/self/root/etc/shadow | grep -a SECRET)
  is "$who: none of $(echo $secrets | wc -w) places of secrets is reachable by name" '' "$got"
  got=$(sandbox sh -c 'ls -d "$@" 2>/dev/null' sh $listed | grep -v -x -e /var/tmp -e /tmp)
  is "$who: their names are not there either" '' "$got"
  # whatever is there at all
  got=$(sandbox sh -c 'grep -r -a -l SECRET / --exclude-dir=usr --exclude-dir=proc --exclude-dir=sys --exclude-dir=project 2>/dev/null')
  is "$who: nor is it anywhere in the sandbox" '' "$got"
  # an allow-list: of the root, of /etc
  is "$who: nothing but the listed directories" '' \
    "$(sandbox sh -c 'ls -A /' | grep -v -x -e bin -e sbin -e 'lib.*' -e usr -e etc -e dev -e proc -e sys -e tmp -e root -e run -e var -e home)"
  is "$who: home directories are empty but for the current one" 'project' "$(sandbox sh -c 'ls -A /root; ls -A /home/* | grep -v :')"
  # host kernel interfaces: its own, not the host's
  is "$who: /proc and /sys are the sandbox's own" '' "$(sandbox sh -c 'cat /proc/1/cmdline /proc/*/environ | tr "\0" "\n"; cat /proc/mounts /proc/self/mountinfo' | grep -a -e SECRET -e overlay_host -e "$HARENA")"
  is "$who: no write goes outside" '' "$(sandbox sh -c 'for f in /etc/passwd /usr/bin/env /etc/x /usr/x /bin/x /home/u/project/mine /home/u/x /var/tmp/x /tmp/x /run/x; do echo SECRET-INSIDE >"$f"; done; chmod 777 /etc/passwd; rm -f /etc/hosts' 2>/dev/null; grep -l SECRET-INSIDE /etc/passwd /usr/bin/env /etc/x /usr/x /bin/x /home/u/project/mine /home/u/x /var/tmp/x /tmp/x /run/x 2>/dev/null; [ -e /etc/hosts ] || echo hosts)"
  is "$who: the environment is not passed" '' "$(API_TOKEN=SECRET HOME=/home/u LD_PRELOAD= sandbox sh -c 'env; cat /proc/self/environ | tr "\0" "\n"' | grep -a -e SECRET -e API_TOKEN)"
  is "$who: but what was asked for" 'one two' "$(ONE=one sandbox -e ONE -e TWO=two sh -c 'echo $ONE $TWO')"
}
as=() ; every root
export HOME=/home/u XDG_RUNTIME_DIR=/run/u
mkdir -m 700 /run/u && chown $user /run/u
as=(setpriv --reuid $user --regid $user --clear-groups)
if "${as[@]}" test -x "$HARENA"; then every user; else as=(); fi
# what the host lets him see because of who he is, not because everybody may
group=2346
for d in staff mine; do mkdir -p /etc/ssl/$d/sub && echo SECRET | tee /etc/ssl/$d/key >/etc/ssl/$d/sub/key; done
chown root:$group /etc/ssl/staff && chmod 750 /etc/ssl/staff
chown $user /etc/ssl/mine && chmod 700 /etc/ssl/mine
if "${as[@]}" test -x "$HARENA"; then
  as=(setpriv --reuid $user --regid $user --groups $group)
  for how in env 'bin-deny o'; do
    [ "$how" = env ] || { gcc -O1 -o "$work/deny" "$here/deny.c" && chmod 755 "$work"; how="$work/deny o"; }
    is "user: what only his group or he himself may search is not for everybody ($(basename "$how"))" '' "$(timeout 60 "${as[@]}" $how "$HARENA" run sh -c \
      'for d in staff mine; do cat /etc/ssl/$d/key /etc/ssl/$d/sub/key; ls -A /etc/ssl/$d /etc/ssl/$d/sub; done' 2>/dev/null | grep -v -e '^/' -e '^$')"
  done
fi
HOME=/root

# ---- the current directory: names, and ways round them ----
names='.env .env.production .git-credentials .npmrc .netrc .pypirc id_rsa id_ed25519 server.key cert.pem store.p12 .ssh/config .aws/credentials
  .docker/config.json .kube/config .config/gcloud/x .cargo/credentials .bash_history secrets.yml credentials.json sub/.env sub/.aws/x .ENV Id_Rsa'
for n in $names; do mkdir -p "$(dirname "$n")"; echo SECRET >"$n"; done
ln -s .env symbolic; ln -s .ssh keys; ln -s ../../u/.ssh/id_rsa outward; ln -s /home/u/.aws aws; ln -s ../.. up; ln -s /proc/self/root/etc/shadow magic
ln /home/u/.ssh/id_rsa hard; ln /home/u/.aws/credentials sub/hard2; ln .env sub/hard3; ln /home/u/.netrc hard4
mount --bind /home/u/.ssh bound
mkdir covered; echo SECRET >covered/notes; mount -t tmpfs none covered # hidden by what is mounted there
chown -R $user:$user $project
chmod 755 "$work"; gcc -O1 -o "$work/deny" "$here/deny.c" || exit 1
cat >peek.sh <<'S'
for f in "$@" bound/id_rsa bound/config symbolic keys/config outward aws/credentials up/u/.ssh/id_rsa magic covered/notes .env/../.env sub/../.env; do cat "$f"; done
for d in bound keys aws up/u/.ssh .ssh .aws sub/.aws; do ls -A "$d"; cat "$d"/*; done
find . -type f -exec cat {} + | tr -d '\\0'
S
for who in root user; do
  as=() ; [ $who = user ] && as=(setpriv --reuid $user --regid $user --clear-groups)
  "${as[@]}" test -x "$HARENA" || continue
  is "$who: secrets in the current directory look empty, by links and mounts too" '' "$(sandbox sh peek.sh $names hard sub/hard2 sub/hard3 hard4 2>/dev/null | grep -a SECRET)"
  is "$who: one line says so" 1 "$(grep -c 'looks empty in the sandbox.*--show-secrets' err)"
  is "$who: without openat2 as well" '' "$(timeout 60 "${as[@]}" "$work/deny" o "$HARENA" run sh peek.sh $names hard sub/hard2 sub/hard3 hard4 2>/dev/null | grep -a SECRET)"
  is "$who: the flag shows them" 'SECRET SECRET' "$(sandbox --show-secrets sh -c 'echo $(cat .env sub/.aws/x)')"
done
as=()
mkdir /home/u/.ssh/deeper

# names that mean something only in a certain directory, from within it
pairs=$(grep -o '{ "[^"]*", "[^"]*" }' "$src/broker/secrets.c" | tr -d '{}",')
while read -r d n; do
  place=/home/u/deep/$d
  mkdir -p "$place" && rm -rf "${place:?}/$n" && echo SECRET >"$place/$n" && chown -R $user:$user /home/u/deep && chmod -R a+rX /home/u/deep
  is "in $d: $n is shown as empty" '' "$(cd "$place" && sandbox sh -c 'find . -type f -exec cat {} +; cat "$1"' sh "$n" 2>/dev/null | grep -a SECRET)"
  is "in $d, which is asked for: $n is shown as empty" '' "$(cd "$place" && sandbox --force-cwd sh -c 'find . -type f -exec cat {} +; cat "$1"' sh "$n" 2>/dev/null | grep -a SECRET)"
  rm -f "$place/$n" && mkdir "$place/$n" && echo SECRET >"$place/$n/file"
  is "in $d: so is all in a directory $n" '' "$(cd "$place" && sandbox --force-cwd sh -c 'find . -type f -exec cat {} +; cat "$1/file"' sh "$n" 2>/dev/null | grep -a SECRET)"
done <<<"$pairs"

# ---- where no current directory is shown unless it is forced ----
for d in / /home /home/u /home/other /root /home/u/.cargo /home/u/.ssh /home/u/.config /home/u/.aws /home/u/.ssh/deeper /etc /run /tmp /var/tmp /boot; do
  is "$d is not shown" /tmp "$(cd $d && sandbox pwd)"
done
is 'your home directory, HOME not set' /tmp "$(cd /home/u && unset HOME && sandbox pwd)"
is 'forced, with its secrets hidden' '/home/u ' "$(cd /home/u && sandbox --force-cwd sh -c 'pwd; cat .ssh/id_rsa .netrc .aws/credentials .config/gcloud/x .cargo/credentials 2>/dev/null' | tr '\n' ' ')"
# by another name, where they are mounted a second time
for d in / /home /home/u /root /etc /run /tmp /boot; do
  mkdir -p /mnt/again && mount --bind $d /mnt/again
  is "$d, mounted elsewhere, is not shown" /tmp "$(cd /mnt/again && sandbox pwd)"
  umount /mnt/again
done
umount bound covered
finish
