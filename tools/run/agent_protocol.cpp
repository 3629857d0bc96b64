#include "agent_protocol.hpp"

#include <cstring>
#include <limits>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <sinew/core/error.hpp>

namespace sinew::run {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kHeaderBytes = 9;
constexpr std::size_t kNoiseLimit = 1 << 20;  // what a remote shell may print before the agent starts

std::vector<std::uint8_t> octets(std::span<const std::byte> bytes) {
  std::vector<std::uint8_t> out;
  for (const std::byte b : bytes) out.push_back(static_cast<std::uint8_t>(b));
  return out;
}

/// nlohmann converts any number, into what does not hold it.
template <class T>
T whole(const Json& value) {
  using Limits = std::numeric_limits<T>;
  const bool held =
      value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
  const std::int64_t number = held ? value.get<std::int64_t>() : -1;
  if (held && number >= Limits::min() && number <= Limits::max()) return static_cast<T>(number);
  throw Error(Code::Mismatch,
              fmt::format("what standard input says is no task for an agent: a {} where an integer up to "
                          "{} should be",
                          value.type_name(), Limits::max()));
}

}  // namespace

Bytes AgentTask::encode() const {
  Json j;  // MessagePack: strings are bytes there, whatever their encoding
  j["command"] = plan.command;
  j["environment"] = plan.environment;
  j["folder"] = plan.folder;
  j["first"] = plan.first;
  j["count"] = plan.count;
  j["ranks"] = plan.ranks;
  j["local_first"] = plan.local_first;
  j["local_ranks"] = plan.local_ranks;
  j["elastic"] = plan.elastic;
  j["log_folder"] = plan.logs.folder;
  j["log_bytes"] = plan.logs.rotation.bytes;
  j["log_kept"] = plan.logs.rotation.kept;
  j["log_printed"] = plan.logs.printed;
  j["master_port"] = master_port;
  j["job"] = job;
  j["store"] = store;
  j["secret"] = octets(secret);
  const std::vector<std::uint8_t> packed = Json::to_msgpack(j);
  const auto bytes = std::as_bytes(std::span(packed));
  return {bytes.begin(), bytes.end()};
}

AgentTask AgentTask::decode(std::span<const std::byte> bytes) {
  try {
    const Json j = Json::from_msgpack(octets(bytes));
    AgentTask t;
    j.at("command").get_to(t.plan.command);
    j.at("environment").get_to(t.plan.environment);
    j.at("folder").get_to(t.plan.folder);
    t.plan.first = whole<int>(j.at("first"));
    t.plan.count = whole<int>(j.at("count"));
    t.plan.elastic = j.at("elastic").get<bool>();
    t.plan.ranks = whole<int>(j.at("ranks"));
    t.plan.local_first = whole<int>(j.at("local_first"));
    t.plan.local_ranks = whole<int>(j.at("local_ranks"));
    j.at("log_folder").get_to(t.plan.logs.folder);
    t.plan.logs.rotation.bytes = static_cast<std::uint64_t>(whole<std::int64_t>(j.at("log_bytes")));
    t.plan.logs.rotation.kept = whole<int>(j.at("log_kept"));
    for (const Json& range : j.at("log_printed")) {
      t.plan.logs.printed.emplace_back(whole<int>(range.at(0)), whole<int>(range.at(1)));
    }
    t.master_port = whole<std::uint16_t>(j.at("master_port"));
    j.at("job").get_to(t.job);
    j.at("store").get_to(t.store);
    for (const Json& octet : j.at("secret")) t.secret.push_back(static_cast<std::byte>(whole<std::uint8_t>(octet)));
    return t;
  } catch (const Json::exception& e) {
    throw Error(Code::Mismatch, fmt::format("what standard input says is no task for an agent: {}", e.what()));
  }
}

std::string AgentOrder::encode() const {
  std::string out = {static_cast<char>(kind), static_cast<char>(stream)};
  out.append(reinterpret_cast<const char*>(&number), sizeof number);
  return out;
}

AgentOrder AgentOrder::decode(std::string_view bytes) {
  AgentOrder order;
  order.kind = static_cast<Kind>(bytes[0]);
  order.stream = static_cast<Stream>(bytes[1]);
  std::memcpy(&order.number, bytes.data() + 2, sizeof order.number);
  const bool is_stream = order.stream == Stream::Output || order.stream == Stream::Errors;
  if (order.kind <= Kind::Release && is_stream) return order;
  throw Error(Code::Mismatch, "--agent: standard input holds an order that this sinew-run does not know");
}

std::string encode_frame(FrameKind kind, int rank, std::string_view payload) {
  std::string out(kHeaderBytes, '\0');
  const auto bytes = static_cast<std::uint32_t>(payload.size());
  out[0] = static_cast<char>(kind);
  std::memcpy(out.data() + 1, &rank, sizeof rank);
  std::memcpy(out.data() + 5, &bytes, sizeof bytes);
  out += payload;
  return out;
}

std::string encode_ending(const Ending& ending) {
  const std::int32_t fields[] = {ending.code, ending.signal, ending.core ? 1 : 0, ending.pid};
  return std::string(reinterpret_cast<const char*>(fields), sizeof fields) + ending.last_errors;
}

Ending decode_ending(std::string_view payload) {
  std::int32_t fields[4];
  if (payload.size() < sizeof fields) throw Error(Code::Mismatch, "an agent reports an end that cannot be read");
  std::memcpy(fields, payload.data(), sizeof fields);
  Ending ending{.code = fields[0], .signal = fields[1], .core = fields[2] != 0, .pid = fields[3]};
  ending.last_errors = payload.substr(sizeof fields);
  return ending;
}

void FrameReader::take(std::string_view bytes, const Take& each) {
  rest_ += bytes;
  if (!greeted_) {
    const std::size_t at = rest_.find(kAgentGreeting);
    if (at == std::string::npos) {
      if (rest_.size() > kNoiseLimit) throw Error(Code::Mismatch, "what answers there is no sinew-run");
      return;
    }
    rest_.erase(0, at + kAgentGreeting.size());
    greeted_ = true;
  }
  std::size_t used = 0;
  while (rest_.size() - used >= kHeaderBytes) {
    AgentFrame frame;
    frame.kind = static_cast<FrameKind>(rest_[used]);
    std::memcpy(&frame.rank, rest_.data() + used + 1, sizeof frame.rank);
    std::memcpy(&frame.bytes, rest_.data() + used + 5, sizeof frame.bytes);
    if (frame.kind > FrameKind::Broken || frame.bytes > kLongestFrame) {
      throw Error(Code::Mismatch, "the agent's messages cannot be read");
    }
    if (rest_.size() - used - kHeaderBytes < frame.bytes) break;
    each(frame, std::string_view(rest_).substr(used + kHeaderBytes, frame.bytes));
    used += kHeaderBytes + frame.bytes;
  }
  rest_.erase(0, used);
}

}  // namespace sinew::run
