# ./run wheel: the wheel and the source distribution of the Python package in build/dist. The wheel is made of what the
# release build has compiled. `pip install .` compiles everything for itself.

# Libraries that the wheel does not carry. A copy of UCX or libfabric would find no transports, because these are plug-ins of
# the system's own. OpenSSL gets its security updates from the system, too. torch and CUDA come with packages of their own.
WHEEL_LEAVES_OUT=(
  libucp.so.0 libuct.so.0 libucs.so.0 libucm.so.0 libfabric.so.1 libibverbs.so.1 librdmacm.so.1
  libssl.so.3 libcrypto.so.3 libudev.so.1 libcuda.so.1 libnccl.so.2
  libtorch.so libtorch_cpu.so libtorch_python.so libc10.so
)

# one_name FILE..: in a wheel, which holds no links, a library of sinew's has one name, without a version
one_name() {
  local file needed
  for file in "$@"; do
    case $file in
      */lib/libsinew*.so) patchelf --set-soname "$(basename "$file")" "$file" ;;
    esac
    for needed in $(patchelf --print-needed "$file"); do
      case $needed in
        libsinew*.so.*) patchelf --replace-needed "$needed" "${needed%%.so.*}.so" "$file" ;;
      esac
    done
    patchelf --force-rpath --set-rpath "\$ORIGIN/$(realpath --relative-to "$(dirname "$file")" "$stage/lib")" "$file"
  done
}

# stage_package TORCH: build/wheel_stage/sinew, the folder sinew of the wheel without its Python files. TORCH: the folder of a
# torch that the wheel gets an extension for; empty: none.
stage_package() {
  local torch=$1 whole=$PWD/build/wheel_stage/whole component library
  local stage=$PWD/build/wheel_stage/sinew libdir
  libdir=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' build/release/CMakeCache.txt)
  rm -rf build/wheel_stage
  mkdir -p "$stage/lib"
  for component in libsinew0 libsinew-dev sinew-tools sinew-ucx sinew-ofi sinew-nccl python3-sinew; do
    cmake --install build/release --prefix "$whole" --component "$component" --strip >/dev/null
  done
  for library in "$whole/$libdir"/libsinew*.so.*.*.*; do
    cp "$library" "$stage/lib/$(basename "${library%%.so.*}").so"
  done
  cp -r "$whole/$libdir/sinew-modules" "$stage/lib/"
  cp -r "$whole/bin" "$whole/include" "$stage/"
  cp -rL /usr/include/fmt "$stage/include/fmt"
  # The Python files come from their own folder. Only what is compiled is taken from here.
  (cd "$whole/lib/python3/dist-packages/sinew" && find . -name '*.so' -exec cp --parents {} "$stage" ';')
  find "$stage" -type f \( -name '*.so' -o -path '*/bin/*' \) -print0 | while IFS= read -r -d '' library; do
    one_name "$library"
  done
  CXX=${CXX:-ccache c++} CCACHE_SLOPPINESS=pch_defines,time_macros \
    python3 -B python/sinew/torch/build.py --torch "${torch:-OFF}" --prefix "$stage" >&2
  if [ -n "$torch" ]; then one_name "$stage"/torch/*.so; fi # auditwheel looks for the libraries that it needs
  # Whoever passes on a library passes on its licence.
  cmake -D "SINEW_LIBRARIES=$(find "$stage/lib" -maxdepth 1 -name 'libsinew*.so' | paste -sd ';')" -D SINEW_LICENCES_ONLY=ON \
    -D CMAKE_INSTALL_PREFIX="$stage" -P python/carry_libraries.cmake >/dev/null
}

# make_wheel TORCH: build/dist/sinew-*.whl, and says which systems it runs on
make_wheel() {
  local PATH=$PWD/build/packaging/bin:$PATH python=$PWD/build/packaging/bin/python exclude=() library
  for library in "${WHEEL_LEAVES_OUT[@]}"; do exclude+=(--exclude "$library"); done
  say "staging the package"
  stage_package "$1"
  say "packing the wheel"
  rm -rf build/wheel_plain build/wheel_prebuilt
  mkdir -p build/dist
  rm -f build/dist/*.whl
  "$python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel_plain \
    --config-settings=cmake.source-dir=python/prebuilt --config-settings=build-dir=build/wheel_prebuilt \
    --config-settings=cmake.define.SINEW_STAGE="$PWD/build/wheel_stage/sinew" . >&2
  # The oldest system that it says it runs on is the one that it is tested on.
  "$python" -m auditwheel repair --only-plat --plat "manylinux_2_36_$(uname -m)" "${exclude[@]}" \
    --wheel-dir build/dist build/wheel_plain/*.whl >build/wheel_plain/repair.log 2>&1 ||
    { cat build/wheel_plain/repair.log >&2; return 1; }
  # Each library that auditwheel has put in comes with its licence.
  "$python" -m zipfile -l build/dist/*.whl >build/wheel_plain/files.txt
  diff <(sed -n 's|^sinew\.libs/\(lib[a-z0-9_]*\)-.*|\1|p' build/wheel_plain/files.txt | sort) \
    <(sed -n 's|^sinew/licenses/\(lib[a-z0-9_]*\)\.so.*|\1|p' build/wheel_plain/files.txt | sort) >&2
  "$python" -m auditwheel show build/dist/*.whl >build/wheel_plain/floor.txt
  say "$(basename build/dist/*.whl): $(tr '\n' ' ' <build/wheel_plain/floor.txt | grep -o 'constrains the platform tag to "[^"]*"') by symbols, tested on Debian 12"
}

# make_sdist: build/dist/sinew-*.tar.gz
make_sdist() {
  say "packing the source distribution"
  mkdir -p build/dist
  rm -f build/dist/*.tar.gz
  build/packaging/bin/python -m build --sdist --no-isolation --skip-dependency-check --outdir build/dist . >build/packaging/sdist.log 2>&1 ||
    { cat build/packaging/sdist.log >&2; return 1; }
}

# check_sdist: the source distribution has every file of the repository, except for links that the build makes, and can be
# configured.
check_sdist() {
  local work=$PWD/build/sdist_check
  say "unpacking and configuring the source distribution"
  rm -rf "$work"
  mkdir -p "$work"
  tar -xzf build/dist/sinew-*.tar.gz -C "$work" --strip-components 1
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
    diff <(git ls-files | grep -v '^cmake/roots/' | sort) <(cd "$work" && find . \( -type f -o -type l \) -printf '%P\n' | grep -vx PKG-INFO | sort) >&2
  else
    say "not compared with the repository, because there is none here"
  fi
  local option
  for option in -DSINEW_BUILD_PYTHON=ON -DSINEW_BUILD_TESTS=ON; do
    cmake -S "$work" -B "$work/build$option" -G Ninja $option "-DPython_EXECUTABLE=$PWD/build/python/bin/python" >"$work/configure.log" 2>&1 || { cat "$work/configure.log" >&2; return 1; }
  done
  rm -rf "$work"
}

# The folder of the torch in a folder site-packages, which is given as --torch FOLDER.
torch_folder() {
  local site
  site=$(realpath -- "$1") && [ -e "$site/torch/version.py" ] ||
    die "--torch '$1': expected a folder site-packages that has a torch"
  echo "$site/torch"
}

run_wheel() {
  local torch=
  case ${1-} in
    '') ;;
    --torch) torch=$(torch_folder "${2-}") || exit 2 ;;
    *) die "wheel: there is no option '$1'; expected --torch FOLDER" ;;
  esac
  need_packages bench build package
  make_environment build/packaging packaging
  make_python_environment
  configure release
  compile release packaged
  make_wheel "$torch"
  make_sdist
  check_sdist
  say "in build/dist: $(cd build/dist && ls | xargs)"
}
