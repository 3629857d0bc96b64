// Both sides of a long message of device memory in one thread, over a rank's connection to itself.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <sinew/collectives/messages/self_link.hpp>
#include <sinew/collectives/transfers/transfers.hpp>
#include <sinew/core/deadline.hpp>

#include "fakes/device_link.hpp"
#include "fakes/fake_device.hpp"
#include "fakes/fake_peer_memory.hpp"
#include "support/counted_end.hpp"
#include "support/on_device.hpp"

namespace sinew::test {
namespace {

constexpr std::uint32_t kTag = 7;
constexpr std::uint64_t kIdentity = 0x1234'5678'9abc'def0;

class TransfersOfOneRank : public testing::Test {
 protected:
  ~TransfersOfOneRank() override {
    open_->store(true);
    for (const Buffer& b : made_) drain_and_release(b);
    device_.release(where_.stream);
  }
  TransferRoute route(std::uint64_t note = kIdentity) {
    return {.endpoint = &link_, .owner = this, .note = note, .communicator = 3, .same_process = same_process_};
  }
  std::vector<std::uint32_t> counting(std::size_t bytes) {
    std::vector<std::uint32_t> values(bytes / 4);
    std::iota(values.begin(), values.end(), 17U);
    return values;
  }
  Buffer on_device(std::vector<std::uint32_t>& values) {
    made_.push_back(write(where_, values));
    static_cast<void>(read<std::uint32_t>(where_, made_.back()));  // so that `values` may go
    return made_.back();
  }
  template <class F>
  bool progress_until(F holds, Duration patience = std::chrono::seconds(20)) {
    const Deadline deadline = Deadline::after(patience);
    while (!holds()) {
      static_cast<void>(link_.progress() + device_link_.progress() + transfers_.progress());
      if (deadline.passed()) return false;
    }
    return true;
  }
  /// Lets the link and the transfers do all that they can do now.
  void settle() {
    for (int turn = 0; turn < 100; ++turn)
      static_cast<void>(link_.progress() + device_link_.progress() + transfers_.progress());
  }
  /// Keeps the stream from going on before open_ is true.
  void block(StreamRef stream) {
    fake::enqueue(stream.stream, [open = open_] { return open->load(); });
  }
  static Buffer view(std::vector<std::uint32_t>& values) {
    return {reinterpret_cast<std::byte*>(values.data()), values.size() * 4};
  }

  fake::Device device_;
  const OnDevice where_{device_, device_.make_stream(0)};
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
  bool same_process_ = true;
  std::vector<Buffer> made_;
  fake::Path* path_ = new fake::Path;  // of transfers_
  fake::DeviceLink device_link_;
  bool connects_ = true;
  Transfers transfers_{&device_, 0, std::unique_ptr<PeerMemory>(path_), [this](int, int) -> Endpoint& {
                         if (!connects_) throw Error(Code::Unavailable, "no connection");
                         return device_link_;
                       }};  // outlives the link
  SelfLink link_{0};
  CountedEnd sent_;
  CountedEnd received_;

 private:
  void drain_and_release(Buffer b) {
    static_cast<void>(read<std::uint32_t>(where_, b));
    device_.release(b);
  }
};

constexpr std::size_t kTransferBytes = 5 * kPieceBytes + 4 * 1001;

TEST_F(TransfersOfOneRank, CopyFromDeviceToDevice_WithoutHostMemory) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> nothing(kTransferBytes / 4);
  const Buffer from = on_device(values);
  const Buffer to = on_device(nothing);
  transfers_.recv(route(), kTag, to, {}, true, received_);
  transfers_.send(route(), kTag, from, {}, sent_);
  ASSERT_TRUE(progress_until([&] { return sent_.fired + received_.fired == 2; }));
  EXPECT_TRUE(sent_.status.ok()) << sent_.status.message();
  EXPECT_TRUE(received_.status.ok()) << received_.status.message();
  EXPECT_EQ(received_.bytes, kTransferBytes);
  EXPECT_EQ(received_.note, kIdentity);
  EXPECT_EQ(read<std::uint32_t>(where_, to), values);
  EXPECT_EQ(transfers_.counts().staged_bytes, 0U) << "P2P must not touch host memory where the devices can copy";
  EXPECT_EQ(transfers_.counts().peer_copied_bytes, kTransferBytes);
  EXPECT_FALSE(transfers_.active());
}

class TransfersBetweenProcesses : public TransfersOfOneRank {
 protected:
  TransfersBetweenProcesses() { same_process_ = false; }
  /// Sends from the middle of an allocation to the middle of another one.
  void pass(std::size_t bytes) {
    CountedEnd sent;
    CountedEnd received;
    auto values = counting(bytes + 128);
    std::vector<std::uint32_t> nothing(bytes / 4 + 64);
    const Buffer from = on_device(values).part(128, bytes);
    const Buffer all = on_device(nothing);
    TransferRoute to_peer = route();
    to_peer.same_host = same_host_;
    to_peer.direct = direct_;
    to_peer.direct_most_bytes = kTransferBytes;
    transfers_.recv(to_peer, kTag, all.part(64, bytes), {}, true, received);
    transfers_.send(to_peer, kTag, from, {}, sent);
    ASSERT_TRUE(progress_until([&] { return sent.fired + received.fired == 2; })) << transfers_.describe(this, 0);
    ASSERT_TRUE(sent.status.ok()) << sent.status.message();
    ASSERT_TRUE(received.status.ok()) << received.status.message();
    const auto got = read<std::uint32_t>(where_, all);
    EXPECT_EQ(got[15] + got[16 + bytes / 4], 0U) << "around the message";
    EXPECT_TRUE(std::equal(values.begin() + 32, values.end(), got.begin() + 16));
    settle();
    EXPECT_FALSE(transfers_.active());
  }
  bool same_host_ = true;
  int direct_ = -1;
};

TEST_F(TransfersBetweenProcesses, GoOverATransportThatTakesDeviceMemory_WithoutHostMemory) {
  path_->can_map = false;
  direct_ = 1;
  pass(kTransferBytes);
  EXPECT_EQ(transfers_.counts().direct_bytes, kTransferBytes);
  EXPECT_EQ(transfers_.counts().staged_bytes, 0U) << "P2P must not touch host memory where the transport need not";
  connects_ = false;
  pass(kTransferBytes);
  connects_ = true;
  pass(kTransferBytes + 4);  // longer than the transport takes
  EXPECT_EQ(transfers_.counts().direct_bytes, kTransferBytes);
  EXPECT_EQ(transfers_.counts().staged_bytes, 2 * kTransferBytes + 2 * (kTransferBytes + 4));
}

TEST_F(TransfersBetweenProcesses, CopyFromExportedMemory_WithoutHostMemory) {
  pass(kTransferBytes);
  EXPECT_EQ(transfers_.counts().peer_copied_bytes, kTransferBytes);
  EXPECT_EQ(transfers_.counts().staged_bytes, 0U);
  EXPECT_EQ(path_->mapped, 0) << "the mapping is given back";
}

TEST_F(TransfersBetweenProcesses, StageEachByteOnBothSides_WhenNoPathLeadsToTheMemory) {
  std::uint64_t staged = 0;
  const auto expect_staged = [&](std::size_t bytes) {
    pass(bytes);
    staged += 2 * bytes;
    EXPECT_EQ(transfers_.counts().staged_bytes, staged);
    EXPECT_EQ(transfers_.counts().peer_copied_bytes, 0U);
  };
  path_->can_export = false;
  for (const std::size_t bytes : {kWholeBytes + 4, kPieceBytes, kPieceBytes + 4, kTransferBytes}) expect_staged(bytes);
  path_->can_export = true;
  path_->can_map = false;
  expect_staged(kTransferBytes);
  path_->can_map = true;
  same_host_ = false;
  expect_staged(kTransferBytes);
}

TEST_F(TransfersBetweenProcesses, EndOnBothSides_WhenTheDeviceOfEitherFailsOnTheWay) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> nothing(kTransferBytes / 4);
  const Buffer from = on_device(values);
  const Buffer to = on_device(nothing);
  for (std::size_t staged = 0; staged < 2 * (kTransferBytes - kPieceBytes); staged += kPieceBytes / 2) {
    CountedEnd sent;
    CountedEnd received;
    const std::uint64_t before = transfers_.counts().staged_bytes;
    transfers_.recv(route(), kTag, to, {}, true, received);
    transfers_.send(route(), kTag, from, {}, sent);
    ASSERT_TRUE(progress_until([&] { return transfers_.counts().staged_bytes - before > staged; }));
    device_.fail_next("an illegal address was met");
    ASSERT_TRUE(progress_until([&] { return sent.fired + received.fired == 2; })) << transfers_.describe(this, 0);
    EXPECT_FALSE(sent.status.ok() && received.status.ok()) << "after " << staged << " bytes";
    for (const CountedEnd* e : {&sent, &received}) EXPECT_TRUE(e->status.ok() || e->status.code() == Code::System);
    ASSERT_TRUE(progress_until([&] { return !transfers_.active(); }));
  }
}

TEST_F(TransfersBetweenProcesses, WaitForTheReceiversStream_WithoutPinnedMemory) {
  auto values = counting(kTransferBytes);
  const Buffer from = on_device(values);
  const StreamRef late = device_.make_stream(0);
  block(late);
  std::vector<std::uint32_t> nothing(kTransferBytes / 4);
  std::vector<Buffer> to;
  std::vector<std::unique_ptr<CountedEnd>> ends;
  // As many as the pool holds wait for the stream, and the stream may need the last message.
  for (std::size_t i = 0; i < PiecePool::kMostTransfers; ++i) {
    to.push_back(on_device(nothing));
    transfers_.recv(route(), kTag, to.back(), late, true, *ends.emplace_back(std::make_unique<CountedEnd>()));
    transfers_.send(route(), kTag, from, {}, *ends.emplace_back(std::make_unique<CountedEnd>()));
  }
  to.push_back(on_device(nothing));
  transfers_.recv(route(), kTag, to.back(), {}, true, received_);
  transfers_.send(route(), kTag, from, {}, sent_);
  ASSERT_TRUE(progress_until([&] { return sent_.fired + received_.fired == 2; })) << transfers_.describe(this, 0);
  open_->store(true);
  const auto ended = [](const auto& e) { return e->fired == 1 && e->status.ok(); };
  ASSERT_TRUE(progress_until([&] { return std::ranges::all_of(ends, ended); })) << transfers_.describe(this, 0);
  for (const Buffer& b : to) EXPECT_EQ(read<std::uint32_t>(where_, b), values);
  device_.release(late);
}

TEST_F(TransfersOfOneRank, StageEachByteOnce_WhenTheReceiverIsInHostMemory) {
  for (const std::size_t bytes : {kWholeBytes + 4, kPieceBytes, kPieceBytes + 4, kTransferBytes}) {
    CountedEnd sent;
    CountedEnd received;
    auto values = counting(bytes);
    std::vector<std::uint32_t> got(bytes / 4 + 1, 5);
    const std::uint64_t before = transfers_.counts().staged_bytes;
    transfers_.send(route(), kTag, on_device(values), {}, sent);
    settle();
    EXPECT_TRUE(link_.has_unexpected(Tag::user(0, 3, kTag))) << "a receive from any rank must find the card";
    transfers_.recv(route(), kTag, view(got), {}, false, received);
    ASSERT_TRUE(progress_until([&] { return sent.fired + received.fired == 2; })) << bytes;
    EXPECT_TRUE(received.status.ok()) << received.status.message();
    EXPECT_EQ(received.bytes, bytes);
    EXPECT_EQ(got.back(), 5U) << "behind the message";
    got.pop_back();
    EXPECT_EQ(got, values);
    EXPECT_EQ(transfers_.counts().staged_bytes - before, bytes);
  }
}

TEST_F(TransfersOfOneRank, TakeAPlainMessage_IntoDeviceMemory) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> nothing(kTransferBytes / 4);
  const Buffer to = on_device(nothing);
  transfers_.recv(route(), kTag, to, {}, true, received_);
  link_.send(view(values), Tag::user(0, 3, kTag), kIdentity, sent_);
  ASSERT_TRUE(progress_until([&] { return sent_.fired + received_.fired == 2; }));
  EXPECT_TRUE(received_.status.ok()) << received_.status.message();
  EXPECT_EQ(read<std::uint32_t>(where_, to), values);
  EXPECT_EQ(transfers_.counts().staged_bytes, kTransferBytes);
}

TEST_F(TransfersOfOneRank, WaitForTheStreamsOfBothSides) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> nothing(kTransferBytes / 4);
  const Buffer from = on_device(values);
  const Buffer to = on_device(nothing);
  const StreamRef late = device_.make_stream(0);
  block(late);
  transfers_.send(route(), kTag, from, late, sent_);
  transfers_.recv(route(), kTag, to, late, true, received_);
  settle();
  EXPECT_EQ(sent_.fired + received_.fired, 0);
  EXPECT_EQ(transfers_.counts().peer_copied_bytes, 0U);
  EXPECT_NE(transfers_.describe(this, 0).find("waits for the receiver's answer"), std::string::npos)
      << transfers_.describe(this, 0);
  EXPECT_FALSE(transfers_.arm()) << "nobody is woken by a device";
  open_->store(true);
  ASSERT_TRUE(progress_until([&] { return sent_.fired + received_.fired == 2; }));
  EXPECT_EQ(read<std::uint32_t>(where_, to), values);
  device_.release(late);
}

TEST_F(TransfersOfOneRank, EndTruncated_WhenTheReceiveIsTooShort) {
  for (const std::size_t room : {std::size_t{0}, std::size_t{8}, kTransferBytes - 4}) {
    CountedEnd sent;
    CountedEnd received;
    auto values = counting(kTransferBytes);
    std::vector<std::uint32_t> got(room / 4, 5);
    transfers_.recv(route(), kTag, view(got), {}, false, received);
    transfers_.send(route(), kTag, on_device(values), {}, sent);
    ASSERT_TRUE(progress_until([&] { return sent.fired + received.fired == 2; })) << room;
    EXPECT_TRUE(sent.status.ok()) << "as with a plain message";
    EXPECT_EQ(received.status.code(), Code::Truncated);
    EXPECT_EQ(received.bytes, kTransferBytes);
    EXPECT_EQ(got, std::vector<std::uint32_t>(room / 4, 5));
  }
}

TEST_F(TransfersOfOneRank, EndBothSidesCancelled_WhenTheSendIsCancelledBeforeGo) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> got(kTransferBytes / 4);
  transfers_.send(route(), kTag, on_device(values), {}, sent_);
  settle();
  EXPECT_TRUE(transfers_.arm()) << "only the peer can go on";
  EXPECT_EQ(transfers_.cancel(sent_), Transfers::Cancelled::Done);
  EXPECT_EQ(sent_.fired, 0) << "only progress() fires";
  settle();
  EXPECT_EQ(sent_.fired, 1);
  EXPECT_EQ(sent_.status.code(), Code::Cancelled);
  EXPECT_TRUE(transfers_.has_cards(this)) << "the card lies at the peer";
  EXPECT_EQ(transfers_.cancel(sent_), Transfers::Cancelled::Unknown);
  transfers_.recv(route(), kTag, view(got), {}, false, received_);
  ASSERT_TRUE(progress_until([&] { return received_.fired == 1; }));
  EXPECT_EQ(received_.status.code(), Code::Cancelled);
  settle();
  EXPECT_FALSE(transfers_.has_cards(this));
  EXPECT_FALSE(transfers_.active());
}

TEST_F(TransfersOfOneRank, CancelAReceive_BeforeItsCardOnly) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> got(kTransferBytes / 4);
  CountedEnd first;
  transfers_.recv(route(), kTag, view(got), {}, false, first);
  EXPECT_EQ(transfers_.cancel(first), Transfers::Cancelled::Done);
  settle();
  EXPECT_EQ(first.fired, 1);
  EXPECT_EQ(first.status.code(), Code::Cancelled);
  const StreamRef late = device_.make_stream(0);
  block(late);
  transfers_.recv(route(), kTag, view(got), {}, false, received_);
  transfers_.send(route(), kTag, on_device(values), late, sent_);
  settle();
  EXPECT_EQ(transfers_.cancel(received_), Transfers::Cancelled::TooLate);
  EXPECT_EQ(transfers_.cancel(sent_), Transfers::Cancelled::Done) << "it waits for its stream";
  ASSERT_TRUE(progress_until([&] { return received_.fired == 1; }));
  EXPECT_EQ(received_.status.code(), Code::Cancelled);
  open_->store(true);
  device_.release(late);
}

TEST_F(TransfersOfOneRank, EndHere_WhenTheCommunicatorEnds) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> got(kTransferBytes / 4);
  const StreamRef late = device_.make_stream(0);
  block(late);
  const Buffer from = on_device(values);
  CountedEnd alone;
  CountedEnd waiting;
  transfers_.send(route(), kTag + 1, from, {}, alone);  // nobody receives it
  transfers_.recv(route(), kTag + 2, view(got), {}, false, waiting);
  transfers_.send(route(), kTag, from, late, sent_);
  transfers_.recv(route(), kTag, view(got), {}, false, received_);
  settle();
  transfers_.end(this, {Code::Cancelled, "the communicator has ended"});
  const auto all = [&] { return sent_.fired + received_.fired + alone.fired + waiting.fired == 4; };
  ASSERT_TRUE(progress_until(all)) << transfers_.describe(this, 0);
  for (const CountedEnd* e : {&sent_, &received_, &alone, &waiting}) EXPECT_EQ(e->status.code(), Code::Cancelled);
  ASSERT_TRUE(progress_until([&] { return !transfers_.active(); }));
  open_->store(true);
  device_.release(late);
}

TEST_F(TransfersOfOneRank, EndTheSendAfterTheReceiversCopy_WhenTheCommunicatorEnds) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> nothing(kTransferBytes / 4);
  const Buffer from = on_device(values);
  const Buffer to = on_device(nothing);
  // This step holds up all streams.
  const auto holds = std::make_shared<std::atomic<bool>>(false);
  fake::enqueue(where_.stream.stream, [open = open_, holds] {
    holds->store(true);
    while (!open->load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
  });
  ASSERT_TRUE(progress_until([&] { return holds->load(); }));
  transfers_.send(route(), kTag, from, {}, sent_);
  transfers_.recv(route(), kTag, to, {}, true, received_);
  ASSERT_TRUE(progress_until([&] { return transfers_.counts().peer_copied_bytes != 0; }));
  EXPECT_EQ(transfers_.cancel(sent_), Transfers::Cancelled::TooLate) << "it has said Go";
  transfers_.end(this, {Code::Cancelled, "the communicator has ended"});
  EXPECT_FALSE(progress_until([&] { return sent_.fired + received_.fired != 0; }, std::chrono::milliseconds(200)))
      << "the copy still uses both buffers";
  open_->store(true);
  ASSERT_TRUE(progress_until([&] { return sent_.fired + received_.fired == 2; }));
  EXPECT_EQ(sent_.status.code(), Code::Cancelled);
  EXPECT_EQ(received_.status.code(), Code::Cancelled);
}

TEST_F(TransfersOfOneRank, EndWithOneErrorOnBothSides_WhenTheSendersDeviceFails) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> got(kTransferBytes / 4);
  const Buffer from = on_device(values);
  transfers_.recv(route(), kTag, view(got), {}, false, received_);
  transfers_.send(route(), kTag, from, {}, sent_);
  // No event is recorded and nothing is copied before the answer, so the first copy fails.
  device_.fail_next("an illegal address was met");
  ASSERT_TRUE(progress_until([&] { return sent_.fired + received_.fired == 2; })) << transfers_.describe(this, 0);
  EXPECT_EQ(sent_.status.code(), Code::System);
  EXPECT_EQ(sent_.status.message(), "an illegal address was met");
  EXPECT_EQ(received_.status.code(), Code::System);
  EXPECT_NE(std::string(received_.status.message()).find("rank 0 could not read the message from its device"),
            std::string::npos)
      << received_.status.message();
  ASSERT_TRUE(progress_until([&] { return !transfers_.active(); }));
}

TEST_F(TransfersOfOneRank, SendNothing_WhenThereIsNoPinnedMemory) {
  auto values = counting(kTransferBytes);
  const Buffer from = on_device(values);
  device_.fail_next("out of pinned memory");
  EXPECT_THROW(transfers_.send(route(), kTag, from, {}, sent_), Error);
  settle();
  EXPECT_FALSE(link_.has_unexpected(Tag::user(0, 3, kTag)));
  EXPECT_EQ(sent_.fired, 0);
  EXPECT_FALSE(transfers_.active());
}

TEST_F(TransfersOfOneRank, ArriveInOrder_WhenThereAreMoreThanThePoolHolds) {
  constexpr std::size_t kMessages = 3 * PiecePool::kMostTransfers;
  std::vector<std::vector<std::uint32_t>> values;
  std::vector<std::vector<std::uint32_t>> got;
  std::vector<std::unique_ptr<CountedEnd>> ends;
  const auto end = [&]() -> CountedEnd& { return *ends.emplace_back(std::make_unique<CountedEnd>()); };
  got.reserve(kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) {
    values.push_back(counting(kWholeBytes + 4 * (i + 1)));
    transfers_.send(route(), kTag, on_device(values.back()), {}, end());
  }
  for (std::size_t i = 0; i < kMessages; ++i) {
    got.emplace_back(values[i].size());
    transfers_.recv(route(), kTag, view(got.back()), {}, false, end());
  }
  ASSERT_TRUE(progress_until([&] { return std::ranges::all_of(ends, [](const auto& e) { return e->fired == 1; }); }))
      << transfers_.describe(this, 0);
  EXPECT_EQ(got, values);
}

/// A card of an earlier communicator that had the same id.
TEST_F(TransfersOfOneRank, EndWithMismatch_WhenTheCardIsOfAnotherCommunicator) {
  auto values = counting(kTransferBytes);
  std::vector<std::uint32_t> got(kTransferBytes / 4);
  transfers_.send(route(kIdentity + 1), kTag, on_device(values), {}, sent_);
  transfers_.recv(route(), kTag, view(got), {}, false, received_);
  ASSERT_TRUE(progress_until([&] { return received_.fired == 1; }));
  EXPECT_EQ(received_.status.code(), Code::Mismatch);
}

TEST(Card, IsNeverTheIdentityOfItsCommunicator) {
  std::uint64_t identity = 0;
  for (int i = 0; i < 100'000; ++i) {
    identity = mix(identity + 1, 0x5eed);
    const std::uint64_t note = Card::note(identity, static_cast<std::uint32_t>(identity));
    ASSERT_NE(note, identity);
    ASSERT_FALSE(Card::is_note(identity, identity));
    ASSERT_TRUE(Card::is_note(note, identity));
    ASSERT_EQ(Card::number_of(note), static_cast<std::uint32_t>(identity));
  }
}

TEST(Pieces, CoverAMessageExactly_AtAnyLength) {
  const std::uint64_t two_gib = std::uint64_t{1} << 31;
  for (const std::uint64_t bytes : {std::uint64_t{kWholeBytes} + 1, std::uint64_t{kPieceBytes},
                                    std::uint64_t{kPieceBytes} + 1, two_gib - 1, two_gib, 3 * two_gib + 12'345}) {
    const std::uint64_t piece = piece_bytes_of(bytes);
    EXPECT_LE(piece, kPieceBytes) << bytes;
    EXPECT_EQ(piece % 64, 0U) << bytes;
    const std::uint64_t pieces = (bytes - 1) / piece + 1;
    EXPECT_LT((pieces - 1) * piece, bytes);
    EXPECT_GE(pieces * piece, bytes);
    EXPECT_LE(pieces, (bytes - 1) / kPieceBytes + 1) << "no more pieces than of the full length";
  }
}

}  // namespace
}  // namespace sinew::test
