// Frames of a pair come to the endpoint in the order in which they left, whatever UCX did to it.
#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include <sinew/transports/ucx/endpoint.hpp>

namespace sinew::test {
namespace {

using ucx::Frame;
using ucx::FrameKind;

struct Received : Completion {
  Received() : Completion([](Completion& c) noexcept { static_cast<Received&>(c).fired = true; }) {}
  bool fired = false;
  std::uint32_t value = 0;
};

class UcxLink : public testing::Test {
 protected:
  UcxLink() { shared_.links.resize(2); }

  void arrive(std::uint32_t sequence) {
    const Frame f{.tag = kTag.bits, .sequence = sequence, .rank = 1, .kind = FrameKind::Eager};
    std::array<std::byte, sizeof sequence> payload;
    std::memcpy(payload.data(), &sequence, sizeof sequence);
    link().accept(f, payload.data(), payload.size());
    shared_.finished.fire();
  }
  void receive(ucx::UcxEndpoint& endpoint, Received& into) {
    endpoint.recv({{reinterpret_cast<std::byte*>(&into.value), sizeof into.value}}, kTag, into);
    shared_.finished.fire();
  }
  ucx::Link& link() { return shared_.link_to(1); }

  static constexpr Tag kTag = Tag::user(0, 3, 7);
  ucx::Shared shared_{{.rank = 0, .size = 2, .host_id = "here"}};
};

TEST_F(UcxLink, PutsWhatWasOvertakenIntoItsPlace) {
  ucx::UcxEndpoint endpoint(shared_, {.rank = 1}, link());
  link().attach(endpoint);
  std::array<Received, 4> all;
  for (Received& r : all) receive(endpoint, r);
  for (const std::uint32_t sequence : {1u, 3u, 2u}) {
    arrive(sequence);
    EXPECT_FALSE(all[0].fired) << "the first has not come yet";
  }
  arrive(0);
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    EXPECT_TRUE(all[i].fired);
    EXPECT_EQ(all[i].value, i);
  }
}

TEST_F(UcxLink, KeepsWhatComesBeforeTheEndpoint) {
  arrive(1);
  arrive(0);
  ucx::UcxEndpoint endpoint(shared_, {.rank = 1}, link());
  link().attach(endpoint);
  std::array<Received, 2> both;
  for (Received& r : both) receive(endpoint, r);
  for (std::uint32_t i = 0; i < both.size(); ++i) {
    EXPECT_TRUE(both[i].fired);
    EXPECT_EQ(both[i].value, i);
  }
}

TEST_F(UcxLink, DropsWhatComesAfterTheEndpoint) {
  {
    ucx::UcxEndpoint endpoint(shared_, {.rank = 1}, link());
    link().attach(endpoint);
  }
  arrive(0);
  Received r;
  ucx::UcxEndpoint next(shared_, {.rank = 1}, link());
  link().attach(next);
  receive(next, r);
  EXPECT_FALSE(r.fired);
}

}  // namespace
}  // namespace sinew::test
