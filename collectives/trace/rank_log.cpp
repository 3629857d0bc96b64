#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include <sinew/collectives/trace/rank_log.hpp>

namespace sinew {
namespace {

constexpr std::size_t kCell = sizeof(CallCell);
constexpr std::size_t kBlock = 1024 * kCell;
/// Of a definition: a communicator of four million ranks.
constexpr std::uint32_t kMostNoteBytes = 16 << 20;
constexpr std::int32_t kMostRanks = 1 << 22;
/// Of a time or an offset: a century, so that sums of some stay numbers.
constexpr std::int64_t kLatest = std::int64_t{100} * 366 * 86400 * 1'000'000'000;

/// What lies at `offset` of a struct in these bytes, whatever their alignment.
template <class T>
T read_at(const std::byte* from, std::size_t offset) {
  T value;
  std::memcpy(&value, from + offset, sizeof value);
  return value;
}

bool is_time(std::int64_t ns) { return ns > 0 && ns < kLatest; }

std::string printable(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') c = '?';
  }
  return text;
}

std::string text_of(const std::byte* from, std::size_t most) {
  const auto* text = reinterpret_cast<const char*>(from);
  return printable({text, ::strnlen(text, most)});
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(Code::InvalidArgument,
              fmt::format("{}: {}; expected a log of calls, as SINEW_TRACE keeps it", path, why));
}

}  // namespace

RankLog::RankLog(const std::string& path) {
  about_.path = path;
  file_ = std::make_shared<FileDescriptor>(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!*file_) refuse(path, "cannot be read: " + std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(file_->get(), &status) != 0 || !S_ISREG(status.st_mode)) refuse(path, "is no file");
  read_header();
  read_cells();
}

std::vector<std::byte> RankLog::read(std::uint64_t offset) const {
  std::vector<std::byte> block(kBlock);
  std::size_t have = 0;
  while (have < block.size()) {
    const ssize_t n =
        ::pread(file_->get(), block.data() + have, block.size() - have, static_cast<off_t>(offset + have));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += static_cast<std::size_t>(n);
  }
  block.resize(have / kCell * kCell);
  return block;
}

void RankLog::read_header() {
  const std::vector<std::byte> block = read(0);
  if (block.size() < sizeof(LogHeader)) refuse(about_.path, "is shorter than the header of one");
  const std::byte* h = block.data();
  if (read_at<std::uint64_t>(h, offsetof(LogHeader, magic)) != LogHeader::kMagic)
    refuse(about_.path, "does not begin like one");
  about_.rank = read_at<std::int32_t>(h, offsetof(LogHeader, rank));
  about_.ranks = read_at<std::int32_t>(h, offsetof(LogHeader, ranks));
  about_.process = read_at<std::int32_t>(h, offsetof(LogHeader, process));
  about_.generation = read_at<std::uint32_t>(h, offsetof(LogHeader, generation));
  about_.job = read_at<std::uint64_t>(h, offsetof(LogHeader, job));
  about_.opened = read_at<std::int64_t>(h, offsetof(LogHeader, opened));
  about_.opened_realtime = read_at<std::int64_t>(h, offsetof(LogHeader, opened_realtime));
  about_.clock_error = read_at<std::int64_t>(h, offsetof(LogHeader, ahead_error));
  about_.lost = read_at<std::uint64_t>(h, offsetof(LogHeader, lost));
  about_.truncated = read_at<std::int32_t>(h, offsetof(LogHeader, truncated));
  about_.host = text_of(h + offsetof(LogHeader, host), sizeof LogHeader::host);
  about_.clock = text_of(h + offsetof(LogHeader, clock), sizeof LogHeader::clock);
  ahead_ = read_at<std::int64_t>(h, offsetof(LogHeader, ahead));
  const std::int64_t closed = read_at<std::int64_t>(h, offsetof(LogHeader, closed));
  if (about_.ranks < 1 || about_.ranks > kMostRanks || about_.rank < 0 || about_.rank >= about_.ranks)
    refuse(about_.path, fmt::format("is of rank {} of {}", about_.rank, about_.ranks));
  if (!is_time(about_.opened) || about_.clock_error >= kLatest || ahead_ <= -kLatest || ahead_ >= kLatest)
    refuse(about_.path, "has times that no clock shows");
  about_.opened -= ahead_;
  about_.closed = is_time(closed);
  about_.ended = about_.closed ? closed - ahead_ : about_.opened;
}

void RankLog::read_cells() {
  std::map<std::pair<CellKind, std::uint32_t>, Parts> begun;
  std::uint64_t cells = 0, used = 0;
  std::uint64_t offset = sizeof(LogHeader);
  std::uint64_t calls = 0;
  for (auto block = read(offset); !block.empty(); block = read(offset)) {
    offset += block.size();
    for (std::size_t at = 0; at < block.size(); at += kCell) {
      const auto kind = read_at<CellKind>(block.data() + at, offsetof(CallCell, kind));
      ++cells;
      if (kind == CellKind::None) continue;
      about_.damaged += cells - used - 1;  // zeros before something
      used = cells;
      if (kind == CellKind::Call) {
        ++calls;
      } else if (!add_part(block.data() + at, begun)) {
        ++about_.damaged;
      }
    }
  }
  for (auto cursor = this->calls(); const auto call = cursor.next();) {
    ++about_.calls;
    if (!call->completed) ++about_.unfinished;
    about_.ended = std::max({about_.ended, call->entered, call->completed.value_or(call->entered)});
  }
  about_.damaged += calls - about_.calls;
}

bool RankLog::add_part(const std::byte* cell, std::map<std::pair<CellKind, std::uint32_t>, Parts>& begun) {
  const auto kind = read_at<CellKind>(cell, offsetof(DefinitionCell, kind));
  const auto number = read_at<std::uint32_t>(cell, offsetof(DefinitionCell, number));
  const auto part = read_at<std::uint32_t>(cell, offsetof(DefinitionCell, part));
  const auto bytes = read_at<std::uint32_t>(cell, offsetof(DefinitionCell, bytes));
  if (kind != CellKind::Site && kind != CellKind::Plan && kind != CellKind::Communicator) return false;
  if (number == 0 || bytes > kMostNoteBytes) return false;
  Parts& parts = begun[{kind, number}];
  if (part == 0) parts = {bytes, 0, {}};
  if (part != parts.count || bytes != parts.bytes || parts.data.size() > bytes) return false;
  const std::size_t here = std::min<std::size_t>(DefinitionCell::kPart, bytes - parts.data.size());
  parts.data.append(reinterpret_cast<const char*>(cell + offsetof(DefinitionCell, data)), here);
  ++parts.count;
  if (parts.data.size() == bytes) {
    define(kind, number, parts);
    begun.erase({kind, number});
  }
  return true;
}

void RankLog::define(CellKind kind, std::uint32_t number, const Parts& parts) {
  const std::string& data = parts.data;
  const auto* bytes = reinterpret_cast<const std::byte*>(data.data());
  if (kind == CellKind::Site) {
    sites_.insert_or_assign(number, printable(data));
  } else if (kind == CellKind::Plan && data.size() >= sizeof(PlanCell)) {
    const std::string texts = data.substr(sizeof(PlanCell));
    const std::size_t end = std::min(texts.find('\0'), texts.size());
    const double predicted = read_at<double>(bytes, offsetof(PlanCell, predicted_s));
    plans_.insert_or_assign(
        number, LoggedPlan{read_at<std::uint64_t>(bytes, offsetof(PlanCell, bytes)),
                           std::isfinite(predicted) && predicted > 0 ? predicted : 0, printable(texts.substr(0, end)),
                           printable(texts.substr(std::min(end + 1, texts.size())))});
  } else if (kind == CellKind::Communicator && data.size() > sizeof(CommunicatorCell)) {
    const std::size_t size = (data.size() - sizeof(CommunicatorCell)) / sizeof(std::int32_t);
    const auto rank = read_at<std::uint32_t>(bytes, offsetof(CommunicatorCell, rank));
    LoggedCommunicator made{read_at<std::uint64_t>(bytes, offsetof(CommunicatorCell, identity)),
                            read_at<std::uint32_t>(bytes, offsetof(CommunicatorCell, id)),
                            static_cast<int>(rank),
                            {}};
    made.world_ranks.resize(size);
    std::memcpy(made.world_ranks.data(), bytes + sizeof(CommunicatorCell), size * sizeof(std::int32_t));
    const bool in_world = std::ranges::all_of(made.world_ranks, [&](int r) { return r >= 0 && r < about_.ranks; });
    if (in_world && rank < size && made.world_ranks[rank] == about_.rank)
      communicators_.insert_or_assign(number, std::move(made));
  }
}

std::optional<LoggedCall> RankLog::call_from(const std::byte* cell) const {
  LoggedCall call;
  call.communicator = read_at<std::uint32_t>(cell, offsetof(CallCell, communicator));
  call.fingerprint = read_at<Fingerprint>(cell, offsetof(CallCell, fingerprint));
  call.extent = read_at<std::uint64_t>(cell, offsetof(CallCell, extent));
  call.entered = read_at<std::int64_t>(cell, offsetof(CallCell, entered));
  call.sequence = read_at<std::uint32_t>(cell, offsetof(CallCell, sequence));
  call.peer = read_at<std::int32_t>(cell, offsetof(CallCell, peer));
  call.site = read_at<std::uint32_t>(cell, offsetof(CallCell, site));
  const auto completed = read_at<std::int64_t>(cell, offsetof(CallCell, completed));
  const LoggedCommunicator* on = communicator(call.communicator);
  if (on == nullptr || call.peer < -1 || call.peer >= static_cast<int>(on->world_ranks.size())) return std::nullopt;
  if (call.collective() > Collective::SendRecv || (call.fingerprint >> 5 & 15) >= kDTypeCount) return std::nullopt;
  if (!is_time(call.entered) || (completed != 0 && (!is_time(completed) || completed < call.entered)))
    return std::nullopt;
  call.entered -= ahead_;
  if (completed == 0) return call;
  call.completed = completed - ahead_;
  call.plan = read_at<std::uint32_t>(cell, offsetof(CallCell, plan));
  call.in_place = read_at<std::uint32_t>(cell, offsetof(CallCell, in_place)) == 1;
  const auto outcome = read_at<std::uint32_t>(cell, offsetof(CallCell, outcome));
  if (outcome > static_cast<std::uint32_t>(Code::System)) return std::nullopt;
  call.outcome = static_cast<Code>(outcome);
  return call;
}

std::optional<LoggedCall> RankLog::Cursor::next() {
  while (true) {
    if (at_ == block_.size()) {
      block_ = log_->read(offset_);
      offset_ += block_.size();
      at_ = 0;
      if (block_.empty()) return std::nullopt;
    }
    const std::byte* cell = block_.data() + at_;
    at_ += kCell;
    if (read_at<CellKind>(cell, offsetof(CallCell, kind)) != CellKind::Call) continue;
    if (auto call = log_->call_from(cell)) return call;
  }
}

const LoggedCommunicator* RankLog::communicator(std::uint32_t number) const noexcept {
  const auto at = communicators_.find(number);
  return at == communicators_.end() ? nullptr : &at->second;
}

const LoggedPlan* RankLog::plan(std::uint32_t number) const noexcept {
  const auto at = plans_.find(number);
  return at == plans_.end() ? nullptr : &at->second;
}

std::string RankLog::site(std::uint32_t number) const {
  const auto at = sites_.find(number);
  return at == sites_.end() ? std::string() : at->second;
}

}  // namespace sinew
