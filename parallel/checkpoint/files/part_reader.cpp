#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <sinew/core/error.hpp>
#include <sinew/parallel/checkpoint/files/part_reader.hpp>
#include <sinew/parallel/checkpoint/index/crc32.hpp>
#include <sinew/parallel/checkpoint/index/shared_elements.hpp>

namespace sinew::parallel {
PartReader::PartReader(std::string folder, const CheckpointIndex& index) : folder_(std::move(folder)), index_(&index) {}

const StoredBytes& PartReader::file(std::int32_t number) {
  const auto open = files_.find(number);
  if (open != files_.end()) return open->second;
  const StoredFile& f = index_->files[static_cast<std::size_t>(number)];
  StoredBytes bytes(folder_ + "/" + f.name, f.header_bytes + f.data_bytes);
  std::vector<std::byte> header(f.header_bytes);
  bytes.read(0, header);
  if (crc32(header) != f.header_crc)
    throw Error(Code::InvalidArgument, fmt::format("{}: its header, {} bytes, has the checksum {:08x}, expected {:08x}",
                                                   bytes.path(), header.size(), crc32(header), f.header_crc));
  return files_.emplace(number, std::move(bytes)).first->second;
}

void PartReader::load_block(const StoredItem& stored, const StoredPart& part, std::uint64_t block) {
  if (part_ == &part && number_ == block) return;
  part_ = nullptr;
  const std::uint64_t from = block * kBlockBytes;
  const StoredBytes& bytes = file(part.file);
  const std::uint64_t offset = index_->files[static_cast<std::size_t>(part.file)].header_bytes + part.offset + from;
  block_.resize(std::min(kBlockBytes, bytes_of(stored.item, part.extent) - from));
  bytes.read(offset, block_);
  const std::uint32_t found = crc32(block_), expected = part.crcs[block];
  if (found != expected)
    throw Error(
        Code::InvalidArgument,
        fmt::format("{}: {}, {}: bytes [{}, {}) of the file have the checksum {:08x}, expected {:08x}: they were "
                    "changed since they were written",
                    bytes.path(), stored.item.to_string(), text_of(stored.item, part.extent), offset,
                    offset + block_.size(), found, expected));
  part_ = &part;
  number_ = block;
}

void PartReader::read(const StoredItem& stored, const CheckpointPart& wanted) {
  const std::size_t element = size_of(stored.item.dtype);
  const std::vector<ElementRun> runs = runs_of(wanted.item, wanted.extent);
  for (const StoredPart& part : stored.parts) {
    for (const SharedElements& s : shared_elements(runs_of(stored.item, part.extent), runs)) {
      std::uint64_t from = static_cast<std::uint64_t>(s.stored_at) * element;
      std::byte* to = wanted.buffer.data + static_cast<std::size_t>(s.wanted_at) * element;
      for (std::uint64_t left = static_cast<std::uint64_t>(s.count) * element; left > 0;) {
        load_block(stored, part, from / kBlockBytes);
        const std::uint64_t within = from % kBlockBytes;
        const std::uint64_t n = std::min(left, kBlockBytes - within);
        std::memcpy(to, block_.data() + within, n);
        to += n;
        from += n;
        left -= n;
      }
    }
  }
}

}  // namespace sinew::parallel
