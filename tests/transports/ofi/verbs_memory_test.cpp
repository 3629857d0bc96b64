// Registered memory over libfabric, by a provider with the rules of verbs;ofi_rxm: there is no RDMA device and no
// soft-RoCE where these tests run. The provider refuses messages whose memory is not registered as it must be.
#include <rdma/fi_tagged.h>

#include <array>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/transports/ofi/transport.hpp>

#include "support/counted_end.hpp"
#include "transports/conformance/conformance.hpp"
#include "transports/ofi/pair.hpp"

extern "C" {
int fake_verbs_registrations();
std::size_t fake_verbs_bytes();
int fake_verbs_refused();
void fake_verbs_limit(std::size_t bytes);
}

namespace sinew::test {
namespace {

constexpr const char* kFakeVerbs = "fakeverbs";

Rail over_fake_verbs(const Exchange& world) { return ofi::make_transport(ofi_options(world.rank, kFakeVerbs)); }

/// Everything by rendezvous, and messages cut into many pieces.
Rail over_fake_verbs_in_pieces(const Exchange& world) {
  ofi::Options o = ofi_options(world.rank, kFakeVerbs);
  o.eager_bytes = 600;
  o.eager_credit_bytes = 4096;  // not a page
  o.largest_piece = 10000;
  return ofi::make_transport(o);
}

Subject subject(const char* name, MakeRail make) {
  return {.name = name, .make = std::move(make), .run = run_threads, .notices_death = false};
}
INSTANTIATE_TEST_SUITE_P(ofi_verbs, Conformance,
                         testing::Values(subject("threads", over_fake_verbs),
                                         subject("pieces", over_fake_verbs_in_pieces)),
                         subject_name);

/// Two ranks in one thread.
class OfiVerbsMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("FI_PROVIDER_PATH") == nullptr) GTEST_SKIP() << "FI_PROVIDER_PATH names no folder of providers";
    for (int rank = 0; rank < 2; ++rank) ranks_[rank] = ofi::open_rail(ofi_options(rank, kFakeVerbs));
    to_ = ranks_[0]->connect(ranks_[1]->address());
    from_ = ranks_[1]->connect(ranks_[0]->address());
    pass(8);  // both have their frames
    own_bytes_ = fake_verbs_bytes();
  }
  void TearDown() override {
    fake_verbs_limit(std::numeric_limits<std::size_t>::max());
    to_.reset();
    from_.reset();
    for (auto& rank : ranks_) rank.reset();
    EXPECT_EQ(fake_verbs_registrations(), 0) << "of frames, too";
    EXPECT_EQ(fake_verbs_refused() - refused_before_, refused_on_purpose_);
  }
  bool pass_time_until(const std::function<bool()>& holds) {
    const auto end = Deadline::after(std::chrono::seconds(30));
    while (!holds() && !end.passed()) {
      for (auto& rank : ranks_) static_cast<void>(rank->progress());
    }
    return holds();
  }
  struct Ends {
    Status sent, received;
  };
  /// A message of memory that is here for it alone.
  Ends pass(std::size_t bytes) {
    const std::vector<std::byte> out = pattern(bytes, 1);
    std::vector<std::byte> in(bytes);
    CountedEnd sent, received;
    to_->send(view(out), user(5), 0, sent);
    from_->recv({view(in)}, user(5), received);
    EXPECT_TRUE(pass_time_until([&] { return sent.fired != 0 && received.fired != 0; }));
    EXPECT_TRUE(in == out || !received.status.ok());
    return {sent.status, received.status};
  }

  std::array<std::unique_ptr<ofi::OfiTransport>, 2> ranks_;
  std::unique_ptr<Endpoint> to_, from_;
  std::size_t own_bytes_ = 0;  ///< registered without any message: frames
  const int refused_before_ = fake_verbs_refused();
  int refused_on_purpose_ = 0;
};

TEST_F(OfiVerbsMemory, NoRegistrationOutlivesItsMessage) {
  for (const std::size_t bytes : {400'000, 3'000'000, 0, 17}) {
    const Ends ends = pass(bytes);
    EXPECT_TRUE(ends.sent.ok() && ends.received.ok()) << bytes;
    EXPECT_EQ(fake_verbs_bytes(), own_bytes_) << "memory that may go now is registered still, " << bytes << " bytes";
  }
}

TEST_F(OfiVerbsMemory, ManyMessagesNeedNoMoreThanTheLimit) {
  constexpr std::size_t kBytes = 1'000'000;
  fake_verbs_limit(own_bytes_ + 2 * kBytes);  // one message at a time, both ends
  for (int message = 0; message < 50; ++message) {
    const Ends ends = pass(kBytes);
    ASSERT_TRUE(ends.sent.ok() && ends.received.ok()) << message << ": " << ends.sent.message();
  }
}

TEST_F(OfiVerbsMemory, AMessageBeyondTheLimitEndsBothSides_AndSaysWhy) {
  fake_verbs_limit(own_bytes_ + 1'500'000);  // the receive fits, the send beside it does not
  const Ends ends = pass(1'000'000);
  EXPECT_FALSE(ends.sent.ok());
  EXPECT_FALSE(ends.received.ok());
  const std::string said = std::string(ends.sent.message()) + "; " + std::string(ends.received.message());
  EXPECT_NE(said.find("registering memory: Cannot allocate memory"), std::string::npos) << said;
}

/// A reduction takes its pieces through memory of the transport, which is registered, too.
TEST_F(OfiVerbsMemory, AReductionWithoutScratchEndsBothSides_AndSaysWhy) {
  std::vector<std::uint32_t> out(250'000, 3), sum(250'000, 4);
  const auto bytes_of = [](std::vector<std::uint32_t>& v) {
    return Buffer{reinterpret_cast<std::byte*>(v.data()), v.size() * 4};
  };
  const Reducer add = reducer_for(ReduceOp::Sum, DType::U32);
  fake_verbs_limit(own_bytes_ + 200'000);  // less than the scratch of one piece
  CountedEnd sent, received;
  Sink sink{bytes_of(sum)};
  sink.reduce = &add;
  from_->recv(sink, user(6), received);
  to_->send({bytes_of(out).data, out.size() * 4}, user(6), 0, sent);
  ASSERT_TRUE(pass_time_until([&] { return sent.fired != 0 && received.fired != 0; }));
  EXPECT_EQ(received.status.code(), Code::System);
  EXPECT_NE(received.status.message().find("registering memory: Cannot allocate memory"), std::string::npos)
      << received.status.message();
  EXPECT_FALSE(sent.status.ok());
}

/// The control: a message in memory that nobody has registered is refused, so that the other tests prove something.
TEST_F(OfiVerbsMemory, TheProviderRefusesWhatIsNotRegistered) {
  const ofi::Choice choice = ofi::choose_provider(kFakeVerbs, {});
  ofi::Rail rail(ofi::Info(fi_dupinfo(choice.info.get())), false);
  const fi_addr_t self = rail.insert(rail.name());
  std::vector<std::byte> memory(100);
  const auto registered = rail.register_memory({memory.data(), 50}, FI_SEND);
  void* descriptor = fi_mr_desc(registered.get());
  const int before = fake_verbs_refused();
  EXPECT_EQ(fi_tsend(rail.endpoint(), memory.data(), 100, descriptor, self, 1, nullptr), -FI_EFAULT) << "too long";
  EXPECT_EQ(fi_tsend(rail.endpoint(), memory.data(), 50, nullptr, self, 1, nullptr), -FI_EFAULT);
  EXPECT_EQ(fi_trecv(rail.endpoint(), memory.data(), 50, descriptor, self, 1, 0, nullptr), -FI_EFAULT) << "for sends";
  EXPECT_EQ(fake_verbs_refused() - before, 3);
  refused_on_purpose_ = 3;
}

}  // namespace
}  // namespace sinew::test
