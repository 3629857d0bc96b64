# ./run bare: a bare Debian 12 in a folder, with git and nothing else; there: clone, ./run bench, ./run test. Both say how
# long each of their stages took.

# The Debian archives this machine uses, as one-line sources; another mirror or proxy is taken over with them.
debian_sources() {
  apt-get indextargets --format '$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
    sed -n 's/^Debian deb /deb /p' | sort -u
}

# How apt fetches here: proxies, retries, checks of dates.
apt_options() { apt-config dump | grep -E '^Acquire::(https?|ftp|Retries|Check-)' || true; }

# in_chroot FOLDER COMMAND [SOURCE]: with mounts that nobody else sees and that end with the command, in process ids of
# its own. The folder SOURCE appears in it as /src.
in_chroot() {
  unshare --mount --pid --fork --kill-child --propagation private bash -euc '
    root=$1
    mount --bind "$root" "$root" # so that / is a mount point in it, as ip netns exec wants
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for node in null zero full random urandom tty; do
      touch "$root/dev/$node"
      mount --bind "/dev/$node" "$root/dev/$node"
    done
    ln -s /proc/self/fd "$root/dev/fd"
    ln -s fd/0 "$root/dev/stdin"
    ln -s fd/1 "$root/dev/stdout"
    ln -s fd/2 "$root/dev/stderr"
    mkdir "$root/dev/shm" "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    mount -t tmpfs tmpfs "$root/run"
    if [ -n "$3" ]; then mkdir -p "$root/src" && mount --bind "$3" "$root/src"; fi
    exec env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin TERM="${TERM:-dumb}" \
      ${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
      ${no_proxy:+"no_proxy=$no_proxy"} chroot "$root" bash -euc "$2"' in_chroot "$1" "$2" "${3:-}"
}

# make_debian ROOT PACKAGES [options of mmdebstrap]: packages separated by commas, from where this machine has its own
make_debian() {
  local root=$1 packages=$2 folder
  shift 2
  folder=$(dirname "$root")
  rm -rf --one-file-system "$root"
  mkdir -p "$folder"
  apt_options >"$folder/apt.conf"
  debian_sources >"$folder/sources.list"
  if ! [ -s "$folder/sources.list" ]; then
    apt-get -q update >&2
    debian_sources >"$folder/sources.list"
  fi
  mmdebstrap --quiet --variant=minbase --include="$packages" --aptopt="$folder/apt.conf" "$@" bookworm "$root" \
    "$folder/sources.list"
  cp /etc/hosts "$root/etc/hosts"
  if [ -e /etc/ssl/certs/ca-certificates.crt ]; then # for sources by https
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  fi
}

need_root() {
  if [ "$(id -u)" -ne 0 ]; then die "$1: needs root for chroot and mounts; try: sudo ./run $1"; fi
}

# stage_times NAME < what a job said: the stages in "== 1:23 building", with the seconds that each took.
stage_times() {
  awk -v name="$1" '
    match($0, /^== [0-9]+:[0-9][0-9] /) {
      split(substr($0, 4, RLENGTH - 4), at, ":")
      now = at[1] * 60 + at[2]
      if (stage != "") printf "%6d s  from %3d:%02d  %s: %s\n", now - from, from / 60, from % 60, name, stage
      stage = substr($0, RLENGTH + 1)
      from = now
    }
    END { if (stage != "") printf "%8s  from %3d:%02d  %s: %s\n", "", from / 60, from % 60, name, stage }'
}

# run_bare [bench|test]: both, or one of them
run_bare() {
  local jobs=${1:-"bench test"} job status=0
  case $jobs in
    "bench test" | bench | test) ;;
    *) die "bare: there is no job '$jobs'; expected bench or test, or nothing for both" ;;
  esac
  need_root bare
  need_packages bare
  local folder=$PWD/build/bare root=$PWD/build/bare/root
  say "making a bare Debian with git in build/bare"
  make_debian "$root" git
  git bundle create --quiet "$root/root/sinew.bundle" HEAD
  say "bare: cloning $(git rev-parse --short HEAD), then $jobs"
  in_chroot "$root" 'cd /root && git -c advice.detachedHead=false clone --quiet sinew.bundle sinew' || status=$?
  for job in $jobs; do
    if [ $status -ne 0 ]; then break; fi
    in_chroot "$root" "cd /root/sinew && ./run $job$([ "$job" = test ] && echo ' --times')" \
      2> >(tee "$folder/$job.log" >&2) || status=$?
  done
  say "bare: the stages"
  for job in $jobs; do
    if [ -e "$folder/$job.log" ]; then stage_times "$job" <"$folder/$job.log"; fi
  done
  if [ $status -ne 0 ]; then
    say "bare: ended with exit code $status; the folder is kept: build/bare"
    return $status
  fi
  rm -rf --one-file-system "$folder"
  say "bare: $jobs succeeded with nothing done by hand"
}
