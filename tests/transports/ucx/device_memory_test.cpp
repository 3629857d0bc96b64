// What ucx does where UCX carries CUDA memory, as far as that shows without any.
#include <array>

#include <gtest/gtest.h>

#include <sinew/transports/ucx/context.hpp>
#include <sinew/transports/ucx/endpoint.hpp>
#include <sinew/transports/ucx/transport.hpp>

#include "transports/conformance/rank.hpp"

namespace sinew::test {
namespace {

constexpr std::uint64_t kHost = UCS_BIT(UCS_MEMORY_TYPE_HOST);
constexpr std::uint64_t kCuda = UCS_BIT(UCS_MEMORY_TYPE_CUDA);

TEST(UcxDeviceMemory, IsThere_WhereUcxKnowsCuda) {
  EXPECT_TRUE(ucx::judge_memory_types(kHost | kCuda).ok);
  const Availability no = ucx::judge_memory_types(kHost | UCS_BIT(UCS_MEMORY_TYPE_ROCM));
  EXPECT_FALSE(no.ok);
  EXPECT_NE(no.reason.find("carries no CUDA memory here: it was built without CUDA, or"), std::string::npos)
      << no.reason;
  EXPECT_NE(no.reason.find(ucp_get_version_string()), std::string::npos) << no.reason;
}

TEST(UcxDeviceMemory, IsOfferedOnlyWithADevice) {
  const ucx::UcxTransport transport({.rank = 0, .size = 1, .host_id = "here"});
  EXPECT_FALSE(transport.capabilities().device_memory);
  EXPECT_FALSE(transport.takes_device_memory().ok);
  EXPECT_FALSE(transport.takes_device_memory().reason.empty());
  EXPECT_FALSE(ucx::PeerAddress::decode(transport.address()).device_memory);
}

TEST(UcxDeviceMemory, IsHintedAtForDevicesAlone) {
  ucp_request_param_t p{};
  ucx::hint(p, MemoryKind::Host);
  ucx::hint(p, MemoryKind::PinnedHost);
  EXPECT_EQ(p.op_attr_mask, 0U);
  ucx::hint(p, MemoryKind::Device);
  EXPECT_EQ(p.op_attr_mask, UCP_OP_ATTR_FIELD_MEMORY_TYPE);
  EXPECT_EQ(p.memory_type, UCS_MEMORY_TYPE_CUDA);
}

TEST(UcxDeviceMemory, OfPeersIsInTheirAddress) {
  const ucx::PeerAddress p{.rank = 2, .host_id = "there", .device_memory = true, .worker = Bytes(7, std::byte{1})};
  const ucx::PeerAddress q = ucx::PeerAddress::decode(p.encode());
  EXPECT_TRUE(q.device_memory);
  EXPECT_EQ(q.encode(), p.encode());
}

/// A pair in one thread; rank 0 takes rank 1 for one whose messages may land on a device.
class UcxDevicePeer : public testing::Test {
 protected:
  UcxDevicePeer() {
    ucx::PeerAddress peer = ucx::PeerAddress::decode(ranks_[1].address());
    peer.device_memory = true;
    to_peer_ = ranks_[0].connect(peer.encode());
    from_peer_ = ranks_[1].connect(ranks_[0].address());
  }
  void turn(int times) {
    for (int i = 0; i < times; ++i) {
      for (ucx::UcxTransport& t : ranks_) static_cast<void>(t.progress());
    }
  }
  void receive(Tag tag, std::array<std::byte, 8>& into) {
    Watched received;
    from_peer_->recv({{into.data(), into.size()}}, tag, received);
    const auto give_up = Deadline::after(std::chrono::seconds(30));
    while (!received.done() && !give_up.passed()) turn(1);
    EXPECT_EQ(received.status.code(), Code::Ok);
  }

  std::array<ucx::UcxTransport, 2> ranks_{ucx::UcxTransport({.rank = 0, .size = 2, .host_id = "here"}),
                                          ucx::UcxTransport({.rank = 1, .size = 2, .host_id = "here"})};
  std::unique_ptr<Endpoint> to_peer_, from_peer_;
  std::array<std::byte, 8> out_{std::byte{5}}, in_{};
};

TEST_F(UcxDevicePeer, IsSentNothingThatItHasNotAskedFor) {
  const Tag user = Tag::user(0, 1, 7);
  Watched sent;
  to_peer_->send({out_.data(), out_.size()}, user, 0, sent);
  turn(1000);
  EXPECT_FALSE(sent.done()) << "a host copy of the message was made, which cannot be handed to a device";
  receive(user, in_);
  EXPECT_EQ(in_, out_);
  turn(1000);
  EXPECT_TRUE(sent.done());
}

/// The control: what belongs to a collective is host memory, and short messages go at once.
TEST_F(UcxDevicePeer, IsSentStepsOfCollectivesAtOnce) {
  const Tag step = Tag::collective(0, 2, 1, 0, 0);
  Watched sent;
  to_peer_->send({out_.data(), out_.size()}, step, 0, sent);
  const auto give_up = Deadline::after(std::chrono::seconds(30));
  while (!sent.done() && !give_up.passed()) turn(1);
  EXPECT_TRUE(sent.done());
  receive(step, in_);
  EXPECT_EQ(in_, out_);
}

}  // namespace
}  // namespace sinew::test
