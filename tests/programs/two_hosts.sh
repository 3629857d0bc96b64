#!/bin/sh
# two_hosts.sh JOB PROBE SINEW_RUN [ARGUMENT..]: lets four ranks on two hosts meet; the hosts are network namespaces of this machine,
# joined by one link. Needs root. Exit code 77: no namespaces here.
set -eu
job=$1 probe=$2 run=$3
shift 3
command -v ip >/dev/null || { echo "iproute2 is not installed"; exit 77; }
name=sinew$$
one=10.213.7.1 two=10.213.7.2
folder=$(mktemp -d)
trap 'ip netns del ${name}a 2>/dev/null || true; ip netns del ${name}b 2>/dev/null || true; rm -rf "$folder"' EXIT
ip netns add ${name}a 2>/dev/null || { echo "no network namespaces here"; exit 77; }
ip netns add ${name}b
ip link add link0 netns ${name}a type veth peer name link0 netns ${name}b
ip -n ${name}a addr add $one/24 dev link0
ip -n ${name}b addr add $two/24 dev link0
for host in a b; do
  ip -n $name$host link set lo up
  ip -n $name$host link set link0 up
done
# The kernel says so up to a second after packets flow, and UCX looks for it.
for host in a b; do
  tries=0
  until ip -n $name$host -br link show link0 | grep -q ' UP ' || [ $tries -eq 100 ]; do
    tries=$((tries + 1))
    sleep 0.05
  done
done

# As ssh: HOST COMMAND, after options.
cat >"$folder/rsh" <<END
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in one | $one) host=${name}a ;; *) host=${name}b ;; esac
shift
exec ip netns exec \$host unshare -u sh -c "hostname \$host; \$*"
END
chmod +x "$folder/rsh"

# By hand: RANK LOCAL_RANK NAMESPACE SECRET-FILE
rank() {
  ip netns exec "$3" env RANK="$1" LOCAL_RANK="$2" WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 MASTER_ADDR=$one MASTER_PORT=29600 \
    SINEW_TIMEOUT="${timeout:-60s}" SINEW_SECRET_FILE="$folder/$4" "$probe" 2
}

case $job in
  variables)
    head -c 32 /dev/urandom >"$folder/secret"
    rank 1 1 ${name}a secret & first=$!
    rank 2 0 ${name}b secret & second=$!
    rank 3 1 ${name}b secret & third=$!
    rank 0 0 ${name}a secret
    wait $first
    wait $second
    wait $third
    ;;
  wrong_secret)
    head -c 32 /dev/urandom >"$folder/secret"
    head -c 32 /dev/urandom >"$folder/other"
    timeout=2s
    rank 0 0 ${name}a secret & first=$!
    rank 2 0 ${name}b other || true
    wait $first || true
    ;;
  sinew_run) SINEW_RSH=$folder/rsh ip netns exec ${name}a "$run" --hosts localhost:2,two:2 "$probe" 2 ;;
  run) SINEW_RSH=$folder/rsh ip netns exec ${name}a "$run" --on-failure continue --hosts localhost:2,two:2 "$probe" "$@" ;;
  openmpi)
    ip netns exec ${name}a mpirun.openmpi --allow-run-as-root --oversubscribe -mca plm_rsh_agent "$folder/rsh" \
      -mca oob_tcp_if_include $one/24 --host localhost:2,two:2 -n 4 "$probe" 2
    ;;
  mpich)
    ip netns exec ${name}a mpirun.mpich -launcher ssh -launcher-exec "$folder/rsh" -iface link0 -hosts $one:2,$two:2 \
      -n 4 "$probe" 2
    ;;
esac
