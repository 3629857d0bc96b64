#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/core/host/cpu.hpp>
#include <sinew/core/host/stream_copy.hpp>

namespace sinew {
namespace {

TEST(StreamCopy, CopiesExactlyTheBytesAskedFor) {
  std::vector<std::byte> from(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + 1);
  alignas(kCacheLine) std::array<std::byte, 4096> to;
  for (const std::size_t bytes : {0u, 1u, 15u, 63u, 64u, 65u, 127u, 128u, 1000u, 4000u}) {
    for (const std::size_t shift : {0u, 1u, 8u, 33u}) {
      to.fill(std::byte{0xee});
      stream_copy(to.data(), from.data() + shift, bytes);
      finish_streams();
      EXPECT_EQ(std::memcmp(to.data(), from.data() + shift, bytes), 0) << bytes << " from " << shift;
      EXPECT_EQ(to[bytes], std::byte{0xee}) << bytes;
    }
  }
}

}  // namespace
}  // namespace sinew
