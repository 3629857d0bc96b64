#!/usr/bin/env bash
# containerfile.sh CONTEXT: does what building a container of CONTEXT/Containerfile would do, in this Debian: COPY copies from
# CONTEXT, RUN runs, and at last CMD runs. FROM names the Debian that this is; another instruction is an error.
set -euo pipefail
context=$1
sed -e ':join' -e '/\\$/ { N; s/\\\n//; b join }' -e '/^#/d' "$context/Containerfile" | while IFS= read -r line; do
  [ -n "$line" ] || continue
  read -r instruction rest <<<"$line"
  echo "== $line"
  case $instruction in
    FROM) [ "$rest" = "debian:$(. /etc/os-release && echo "$VERSION_CODENAME")-slim" ] ;;
    COPY)
      read -r -a words <<<"$rest"
      mkdir -p "${words[-1]}"
      # shellcheck disable=SC2086
      (cd "$context" && cp -r ${words[*]:0:${#words[@]}-1} "${words[-1]}")
      ;;
    RUN) sh -ec "$rest" ;;
    CMD) python3 -c 'import json, subprocess, sys; sys.exit(subprocess.run(json.loads(sys.argv[1])).returncode)' "$rest" ;;
    *) echo "the instruction $instruction is not known here" && exit 1 ;;
  esac
done
