# ./run packages: Debian packages of the release build and the wheel, and their use in a bare Debian: installed, upgraded,
# used by programs, and removed. The packages are in build/packages/debian, the wheel is in build/dist.

# make_debian_packages FOLDER: makes them, and looks for faults with lintian, of which errors count
make_debian_packages() {
  local folder=$1
  say "packing the Debian packages"
  rm -rf "$folder"
  mkdir -p "$folder"
  (cd build/release && cpack -G DEB -B "$folder") >"$folder.log" 2>&1 || { cat "$folder.log" >&2; return 1; }
  rm -rf "$folder/_CPack_Packages"
  cp Containerfile "$folder/"
  say "lintian"
  lintian --allow-root --tag-display-limit 0 --fail-on error "$folder"/*.deb >"$folder.lintian" 2>&1 ||
    { grep '^E:' "$folder.lintian" >&2; return 1; }
}

# make_previous_packages FROM TO: the same packages with an earlier version, and with a file that later ones have no more.
# No package was ever published, so that nothing else could be upgraded.
make_previous_packages() {
  local package version tree=$2/tree
  rm -rf "$2"
  mkdir -p "$2"
  for package in "$1"/*.deb; do
    dpkg-deb -R "$package" "$tree"
    version=$(dpkg-deb -f "$package" Version)
    find "$tree/DEBIAN" \( -name control -o -name shlibs \) -exec sed -i "s/${version//./\\.}/${version%-*}-0/g" {} ';'
    echo "of the version before" >"$(echo "$tree"/usr/share/doc/*)/of_the_version_before"
    dpkg-deb -Zgzip -z1 --root-owner-group -b "$tree" "$2" >/dev/null
    rm -rf "$tree"
  done
}

# The Debian that the packages are installed in: build/packages/root, kept for the next time
make_packages_root() {
  local root=build/packages/root packages
  packages=$(packages_of packages_root | paste -sd ,)
  if [ "$(cat "$root/packages" 2>/dev/null)" = "$packages" ]; then return; fi
  say "making a bare Debian in build/packages"
  make_debian "$PWD/$root" "$packages"
  echo "$packages" >"$root/packages"
}

# in_packages_root COMMAND: in a copy of that Debian, which is thrown away. /src in it is build/packages/inside.
in_packages_root() {
  local root=$PWD/build/packages/root scratch=$PWD/build/packages/scratch status=0
  rm -rf --one-file-system "$scratch"
  cp -a --reflink=auto "$root" "$scratch"
  in_chroot "$scratch" "$1" "$PWD/build/packages/inside" || status=$?
  # Packages that apt has fetched are not fetched again.
  find "$scratch/var/cache/apt/archives" -maxdepth 1 -name '*.deb' -exec cp -n {} "$root/var/cache/apt/archives/" ';'
  rm -rf --one-file-system "$scratch"
  return $status
}

# stage_inside WHEEL: build/packages/inside, all that the test in the bare Debian needs
stage_inside() {
  local inside=$PWD/build/packages/inside
  rm -rf "$inside"
  mkdir -p "$inside"
  cp -r build/packages/debian build/packages/previous "$inside/"
  mkdir "$inside/wheel" "$inside/programs"
  if ! [ -d build/packages/wheels ]; then # NumPy, for programs in Python
    build/packaging/bin/python -m pip download --quiet --no-deps --only-binary :all: --dest build/packages/wheels numpy >&2
  fi
  cp "$1" build/packages/wheels/*.whl "$inside/wheel/"
  cp tests/packages/*.sh "$inside/"
  cp examples/all_reduce.cpp tests/build/consumer/* "$inside/programs/"
  cp -r examples/c examples/python "$inside/programs/"
  tests/readme/take.sh README.md sum.cpp "$inside/readme/cpp"
  tests/readme/take.sh README.md sum.py "$inside/readme/python"
}

# Prints a line for each check: passed, failed or skipped, and its name.
run_packages() {
  local results=build/packages/results.txt wheel=
  case ${1-} in
    '') ;;
    --wheel)
      wheel=$(realpath -e -- "${2-}" 2>/dev/null) || die "packages: --wheel '${2-}': there is no such file"
      ;;
    *) die "packages: there is no option '$1'; expected --wheel FILE" ;;
  esac
  need_root packages
  need_packages bench build package packages
  mkdir -p build/packages
  if [ -z "$wheel" ]; then
    run_wheel
    wheel=$(echo "$PWD"/build/dist/*.whl)
  fi
  configure release
  compile release packaged
  make_debian_packages "$PWD/build/packages/debian"
  make_previous_packages build/packages/debian build/packages/previous
  make_packages_root
  stage_inside "$wheel"
  say "using the packages in a bare Debian"
  in_packages_root 'bash /src/in_root.sh' | tee "$results" || true
  say "packages: $(grep -c '^passed' "$results") passed, $(grep -c '^failed' "$results") failed"
  grep -q '^passed' "$results" && ! grep -q '^failed' "$results"
}

# packages_step [--wheel FILE]: the same for ./run test, whose report gets a row for each check.
packages_step() {
  local rows=build/packages_rows.txt
  if [ "$(id -u)" -ne 0 ]; then
    step_row skipped packages "only root can make a bare Debian"
    return
  fi
  ./run packages "$@" >"$rows" || step_row failed packages "see above"
  sed -nE 's/^(passed|failed|skipped) ([^:]*):? ?(.*)/\1\tpackages: \2\t\t\3/p' "$rows" >>"$test_rows"
}
