# ./run aarch64: the lower layers for another CPU, and their unit tests under an emulator. The compiler and the libraries
# for that CPU live in a Debian of their own in build/aarch64, which is kept for the next time.

run_aarch64() {
  need_root aarch64
  need_packages aarch64
  local root=$PWD/build/aarch64/root packages
  packages=$(packages_of aarch64_root | paste -sd ,)
  if [ "$(cat "$root/packages" 2>/dev/null)" != "$packages" ]; then
    say "making a Debian with compilers for aarch64 in build/aarch64"
    make_debian "$root" "$packages" --architectures=amd64,arm64
    echo "$packages" >"$root/packages"
  fi
  say "building for aarch64, and testing under qemu"
  in_chroot "$root" "cd /src
    export PKG_CONFIG_LIBDIR=/usr/lib/aarch64-linux-gnu/pkgconfig:/usr/share/pkgconfig
    cmake -S . -B build/aarch64/out -G Ninja -D CMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake \
      -D CMAKE_BUILD_TYPE=Release -D SINEW_BUILD_TOOLS=OFF -D SINEW_ENABLE_PMIX=OFF \
      -D SINEW_ENABLE_UCX=OFF -D SINEW_ENABLE_OFI=OFF
    cmake --build build/aarch64/out -j $(jobs_that_fit) --target portable_tests
    # The emulator takes time for every page of address space, of which ranks reserve a share of the limit.
    ulimit -v 4000000
    ctest --test-dir build/aarch64/out --output-on-failure --no-tests=error -j $(nproc) -L '^portable$'" "$PWD"
}
