#!/bin/sh
# under_systemd.sh PROJECT PREFIX SITE: a systemd of one's own, as process 1 of its own namespaces,
# with nimod.service as it is shipped.  It sees this machine's files, but /etc, /run, /srv,
# /usr/local/bin and /var/lib are its own.  Status 3: that cannot be had here.
set -eu
own=nimo-test-$$
if [ "${1:-}" != --inside ]; then
  for tree in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ ! -e "$tree/cgroup.procs" ] || { mkdir "$tree/$own" && echo $$ >"$tree/$own/cgroup.procs"; } ||
      exit 3
  done
  exec unshare --pid --fork --kill-child --mount --uts --ipc --cgroup --mount-proc \
    "$0" --inside "$@"
fi
project=$2 prefix=$3 site=$4
(
  set -e
  mount --make-rprivate /
  cgroups=$(stat -f -c %T /sys/fs/cgroup)
  umount -l /sys/fs/cgroup
  if [ "$cgroups" = cgroup2fs ]; then
    mount -t cgroup2 cgroup2 /sys/fs/cgroup
  else
    mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
    mkdir /sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
  fi
  # Not where the unit hides things: in home folders and /tmp.
  mount -t tmpfs -o mode=755 tmpfs /srv
  mkdir /srv/project /srv/prefix /srv/site /srv/etc
  mount --bind "$project" /srv/project
  mount --bind "$prefix" /srv/prefix
  mount --bind "$site" /srv/site
  cp -a /etc/. /srv/etc
  mount --bind /srv/etc /etc
  for folder in /run /usr/local/bin /var/lib; do mount -t tmpfs -o mode=755 tmpfs "$folder"; done
) || exit 3

echo 'nimo:x:64998:64998::/var/lib/nimo:/usr/sbin/nologin' >>/etc/passwd
echo 'nimo:x:64998:' >>/etc/group
mkdir -p /etc/nimo /run/systemd/system/nimod.service.d
cat >/etc/nimo/nimo.yaml <<END
store: sqlite:////var/lib/nimo/nimo.db
socket: /run/nimo/nimod.sock
END
cat >/usr/local/bin/nimo <<END
#!/bin/sh
export PYTHONPATH=/srv/project:/srv/site
exec /srv/prefix/bin/python3 -c "from slurm_plugin.cli.nimo import main; raise SystemExit(main())" "\$@"
END
chmod 755 /usr/local/bin/nimo
cp "$project/etc/systemd/nimod.service" /run/systemd/system
# Nothing else of this machine is to be started.
# It is let into the real-time class, as docs/install.md says.
# What it runs may choose its class: the unit does not start where that is filtered.
printf '[Unit]\nDefaultDependencies=no\n[Service]\nLimitRTPRIO=1\nExecStartPre=chrt --batch 0 true\n' \
  >/run/systemd/system/nimod.service.d/alone.conf
printf '[Unit]\nDefaultDependencies=no\nWants=nimod.service\n' >/run/systemd/system/alone.target
exec env -i container=nimo PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system \
  --unit=alone.target --show-status=0 --log-target=console
