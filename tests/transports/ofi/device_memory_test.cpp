// Device memory over libfabric, by a provider that takes memory of the fake devices. That memory faults if the host
// touches it, so a message that arrives has not passed through host memory of sinew.
#include <array>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/world.hpp>
#include <sinew/transports/ofi/peer_address.hpp>
#include <sinew/transports/ofi/transport.hpp>

#include "fakes/fake_device.hpp"
#include "support/counted_end.hpp"
#include "support/on_device.hpp"
#include "support/ranks.hpp"
#include "support/worlds.hpp"
#include "transports/conformance/rank.hpp"
#include "transports/ofi/pair.hpp"

extern "C" int fake_hmem_registrations();

namespace sinew::test {
namespace {

constexpr const char* kFake = "fakehmem";
/// Short, as long as an eager message may be, of one piece, and of several.
constexpr std::size_t kLengths[] = {4, 8000, 400'000, 3'000'004};

using Numbers = std::vector<std::uint32_t>;

Numbers counting(std::size_t bytes, std::uint32_t first) {
  Numbers values(bytes / 4);
  std::iota(values.begin(), values.end(), first);
  return values;
}

ofi::Options options_of(int rank, const std::string& provider, int device) {
  ofi::Options o = ofi_options(rank, provider);
  o.device = device;
  return o;
}

class OfiDeviceMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("FI_PROVIDER_PATH") == nullptr) GTEST_SKIP() << "FI_PROVIDER_PATH names no folder of providers";
  }
};

TEST_F(OfiDeviceMemory, IsTaken_WhereTheProviderDoes) {
  const auto able = ofi::open_rail(options_of(0, kFake, 0));
  EXPECT_TRUE(able->capabilities().device_memory);
  EXPECT_TRUE(able->takes_device_memory().ok);
  EXPECT_TRUE(ofi::PeerAddress::decode(able->address()).device_memory);
  EXPECT_NE(able->nic_choice().text.find(kFake), std::string::npos) << able->nic_choice().text;
}

TEST_F(OfiDeviceMemory, IsNotTaken_AndSaysWhy) {
  const auto other = ofi::open_rail(options_of(0, kTcp, 0));
  EXPECT_FALSE(other->capabilities().device_memory);
  const std::string& why = other->takes_device_memory().reason;
  EXPECT_NE(why.find("the provider tcp;ofi_rxm of libfabric"), std::string::npos) << why;
  EXPECT_NE(why.find("takes no device memory (FI_HMEM)"), std::string::npos) << why;
  EXPECT_FALSE(ofi::PeerAddress::decode(other->address()).device_memory);
  const auto without = ofi::open_rail(options_of(1, kFake, -1));
  EXPECT_FALSE(without->capabilities().device_memory);
  EXPECT_EQ(without->takes_device_memory().reason, "this rank has no device");
}

/// Two ranks in one thread. Each has a device.
class OfiDevicePair : public OfiDeviceMemory {
 protected:
  void SetUp() override {
    OfiDeviceMemory::SetUp();
    if (IsSkipped()) return;
    for (int rank = 0; rank < 2; ++rank) ranks_[rank] = ofi::open_rail(options_of(rank, kFake, rank));
    to_ = ranks_[0]->connect(ranks_[1]->address());
    from_ = ranks_[1]->connect(ranks_[0]->address());
  }
  void TearDown() override {
    to_.reset();
    from_.reset();
    for (auto& rank : ranks_) rank.reset();
    EXPECT_EQ(fake_hmem_registrations(), 0);
    for (const OnDevice& where : where_) device_.release(where.stream);
  }
  bool pass_time_until(const std::function<bool()>& holds) {
    const auto end = Deadline::after(std::chrono::seconds(30));
    while (!holds() && !end.passed()) {
      for (auto& rank : ranks_) static_cast<void>(rank->progress());
    }
    return holds();
  }
  Buffer on_device(int rank, Numbers& values) {
    const OnDevice& where = where_[static_cast<std::size_t>(rank)];
    const Buffer made = write(where, values);
    static_cast<void>(read<std::uint32_t>(where, made));  // `values` may go
    return made;
  }
  static Buffer on_host(Numbers& values) { return {reinterpret_cast<std::byte*>(values.data()), values.size() * 4}; }
  void pass(ConstBuffer out, Buffer in, Tag tag) {
    CountedEnd sent, received;
    to_->send(out, tag, 0, sent);
    from_->recv({in}, tag, received);
    ASSERT_TRUE(pass_time_until([&] { return sent.fired != 0 && received.fired != 0; })) << out.bytes;
    EXPECT_TRUE(sent.status.ok()) << sent.status.message();
    EXPECT_TRUE(received.status.ok()) << received.status.message();
    EXPECT_EQ(received.bytes, out.bytes);
  }

  fake::Device device_;
  const OnDevice where_[2] = {{device_, device_.make_stream(0)}, {device_, device_.make_stream(1)}};
  std::array<std::unique_ptr<ofi::OfiTransport>, 2> ranks_;
  std::unique_ptr<Endpoint> to_, from_;
};

TEST_F(OfiDevicePair, MessagesPassBetweenAllKindsOfMemory) {
  for (const std::size_t bytes : kLengths) {
    for (const bool from_device : {false, true}) {
      for (const bool to_device : {false, true}) {
        Numbers out = counting(bytes, 7), in(bytes / 4);
        const Buffer source = from_device ? on_device(0, out) : on_host(out);
        const Buffer target = to_device ? on_device(1, in) : on_host(in);
        pass(source, target, user(5));
        EXPECT_EQ(to_device ? read<std::uint32_t>(where_[1], target) : in, out) << bytes;
        if (from_device) device_.release(source);
        if (to_device) device_.release(target);
      }
    }
  }
}

TEST_F(OfiDevicePair, AMessageMayBeAPartOfAnAllocation) {
  Numbers out = counting(2'000'000, 1), in(500'000);
  const Buffer source = on_device(0, out), target = on_device(1, in);
  pass(source.part(400, 1'000'000), target.part(40, 1'000'000), user(5));
  Numbers expected(500'000);
  std::copy_n(out.begin() + 100, 250'000, expected.begin() + 10);
  EXPECT_EQ(read<std::uint32_t>(where_[1], target), expected);
  device_.release(source);
  device_.release(target);
}

/// The receive is there after the message, so the message lies at the receiver until then: announced, not copied.
TEST_F(OfiDevicePair, AMessageOfTheHostWaitsForAReceiveOnADevice) {
  Numbers out = counting(64, 3), in(16);
  const Buffer target = on_device(1, in);
  CountedEnd sent, received;
  to_->send(on_host(out), user(9), 0, sent);
  EXPECT_TRUE(pass_time_until([&] { return from_->has_unexpected(user(9)); }));
  EXPECT_EQ(sent.fired, 0) << "the sender has kept its bytes";
  from_->recv({target}, user(9), received);
  ASSERT_TRUE(pass_time_until([&] { return sent.fired != 0 && received.fired != 0; }));
  EXPECT_EQ(read<std::uint32_t>(where_[1], target), out);
  device_.release(target);
}

/// Messages that cannot lie in device memory stay eager: those of collectives, and those without bytes.
TEST_F(OfiDevicePair, OtherMessagesAreCopiedAsBefore) {
  Numbers out = counting(64, 3), in(16);
  for (const Tag tag : {step(4), Tag::user(0, 3, 4, UserMessageKind::Details)}) {
    CountedEnd sent, received;
    to_->send(on_host(out), tag, 0, sent);
    ASSERT_TRUE(pass_time_until([&] { return sent.fired != 0; })) << "without any receive";
    from_->recv({on_host(in)}, tag, received);
    ASSERT_TRUE(pass_time_until([&] { return received.fired != 0; }));
    EXPECT_EQ(in, out);
  }
  CountedEnd sent, received;
  to_->send({}, user(2), 0, sent);
  ASSERT_TRUE(pass_time_until([&] { return sent.fired != 0; }));
  from_->recv({}, user(2), received);
  ASSERT_TRUE(pass_time_until([&] { return received.fired != 0; }));
  EXPECT_TRUE(received.status.ok());
}

TEST_F(OfiDevicePair, MemoryThatCannotBeRegisteredEndsBothSides) {
  Numbers out = counting(400'000, 1), in(100'000);
  const Buffer source = on_device(0, out), target = on_device(1, in);
  CountedEnd sent, received;
  to_->send({source.data + 4, source.bytes, source.place}, user(5), 0, sent);  // 4 bytes too far
  from_->recv({target}, user(5), received);
  ASSERT_TRUE(pass_time_until([&] { return sent.fired != 0 && received.fired != 0; }));
  EXPECT_EQ(sent.status.code(), Code::System);
  EXPECT_NE(std::string(sent.status.message()).find("registering device memory"), std::string::npos)
      << sent.status.message();
  EXPECT_FALSE(received.status.ok());
  to_.reset();
  from_.reset();
  device_.release(source);
  device_.release(target);
}

/// A World chooses the provider's rail for device memory, and stages nothing.
TEST_F(OfiDeviceMemory, OfAWorldGoesOverTheProvider) {
  WorldOptions options = only("ofi");
  options.config.ofi_provider = kFake;
  std::array<fake::Device, 2> devices{fake::Device(2), fake::Device(2)};
  run_as_threads(2, [&](const Exchange& exchange) {
    fake::Device& device = devices[static_cast<std::size_t>(exchange.rank)];
    WorldOptions mine = options;
    mine.device_runtime = &device;
    World world = World::create(exchange, std::move(mine));
    const OnDevice where{device, device.make_stream(world.rank())};
    const int other = 1 - world.rank();
    for (const std::size_t bytes : kLengths) {
      Numbers out = counting(bytes, static_cast<std::uint32_t>(world.rank())), in(bytes / 4);
      const Buffer source = write(where, out), target = write(where, in);
      world.communicator().sendrecv(source, other, target, other, 3, 3, {.after = where.stream}).get();
      require(read<std::uint32_t>(where, target) == counting(bytes, static_cast<std::uint32_t>(other)), "the message");
      device.release(source);
      device.release(target);
    }
    world.communicator().barrier().get();
    device.release(where.stream);
  });
}

}  // namespace
}  // namespace sinew::test
