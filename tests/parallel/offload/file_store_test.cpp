#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sinew/parallel/offload/file_store.hpp>

#include "scratch_folder.hpp"

namespace sinew::parallel {
namespace {

using test::error_of;
using test::ShortFiles;
using ::testing::HasSubstr;

Bytes pattern(std::size_t bytes, unsigned seed) {
  std::mt19937 random(seed);
  Bytes all(bytes);
  for (std::byte& b : all) b = static_cast<std::byte>(random());
  return all;
}
ConstBuffer view(const Bytes& bytes) { return {bytes.data(), bytes.size()}; }
Buffer room(Bytes& bytes) { return {bytes.data(), bytes.size()}; }

using FileStoreTest = test::ScratchFolderTest;

TEST_F(FileStoreTest, BringsBackArraysOfAllLengths) {
  FileStore store(folder());
  std::vector<std::pair<OffloadStore::Slot, Bytes>> written;
  std::size_t sum = 0;
  for (const std::size_t bytes : {0, 1, 7, 4095, 4096, 4097, 100'003, 3'000'000}) {
    Bytes data = pattern(bytes, static_cast<unsigned>(bytes));
    const auto slot = store.write(view(data));
    store.wait(slot);
    EXPECT_TRUE(store.done(slot));
    written.emplace_back(slot, data);
    std::ranges::fill(data, std::byte{0xee});
    sum += bytes;
  }
  EXPECT_EQ(store.stored_bytes(), sum);
  EXPECT_EQ(store.copied_bytes(), sum);
  for (int again = 0; again < 2; ++again) {
    for (auto& [slot, data] : written) {
      Bytes back(data.size());
      store.read(slot, room(back));
      store.wait(slot);
      EXPECT_EQ(back, data);
    }
  }
  for (auto& [slot, data] : written) store.release(slot);
  EXPECT_EQ(store.stored_bytes(), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder())) << "while the store is there";
}

/// Many arrays at once, in an order that makes holes in the file.
TEST_F(FileStoreTest, UsesRoomAgain) {
  FileStore store(folder());
  std::mt19937 random(5);
  std::vector<std::pair<OffloadStore::Slot, Bytes>> live;
  std::size_t most = 0;
  for (int i = 0; i < 400; ++i) {
    if (live.size() < 12) {
      Bytes& data = live.emplace_back(0, pattern(random() % 60'000, static_cast<unsigned>(i))).second;
      live.back().first = store.write(view(data));
      most = std::max(most, store.stored_bytes());
      continue;
    }
    const std::size_t chosen = random() % live.size();
    Bytes back(live[chosen].second.size());
    store.read(live[chosen].first, room(back));  // the write may still be on its way
    store.wait(live[chosen].first);
    EXPECT_EQ(back, live[chosen].second);
    store.release(live[chosen].first);
    live.erase(live.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  EXPECT_LT(store.file_bytes(), 2 * most + 100'000);
  for (auto& [slot, data] : live) store.release(slot);
}

/// Released arrays may be freed at once, whether their copies have run or not.
TEST_F(FileStoreTest, GivesUpWritesThatAreReleased) {
  FileStore store(folder());
  for (int i = 0; i < 50; ++i) {
    const Bytes first = pattern(200'000, 1), second = pattern(200'000, 2);
    const auto a = store.write(view(first)), b = store.write(view(second));
    store.release(b);
    store.release(a);
  }
  EXPECT_EQ(store.stored_bytes(), 0);
  EXPECT_LE(store.file_bytes(), 500'000);
}

TEST_F(FileStoreTest, NamesTheFolderAndTheReason) {
  const std::string nowhere = folder() + "/nowhere";
  EXPECT_THAT(error_of([&] { FileStore store(nowhere); }),
              ::testing::AllOf(HasSubstr(nowhere), HasSubstr("No such file or directory")));
  FileStore store(folder());
  Bytes data = pattern(100'000, 1), half(50'000);
  const auto good = store.write(view(data));
  store.wait(good);
  {
    const ShortFiles full(120'000);
    const auto bad = store.write(view(data)), behind = store.write(view(half));
    const std::string said = error_of([&] { store.wait(bad); });
    EXPECT_THAT(said, HasSubstr("offload to a scratch file in '" + folder() + "': writing"));
    EXPECT_THAT(said, HasSubstr("File too large"));
    EXPECT_THAT(error_of([&] { store.wait(behind); }), HasSubstr("File too large"));
    store.release(bad);
    store.release(behind);
  }
  Bytes back(data.size());
  store.read(good, room(back));
  store.wait(good);
  EXPECT_EQ(back, data);
  EXPECT_THAT(error_of([&] { store.read(good, room(half)); }), HasSubstr("50000 bytes of an array of 100000"));
  EXPECT_THAT(error_of([&] {
                store.write({data.data(), 10, {MemoryKind::Device, 2}});
              }),
              HasSubstr("in the memory of device 2, expected memory of the host"));
  store.release(good);
}

}  // namespace
}  // namespace sinew::parallel
