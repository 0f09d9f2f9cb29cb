// Structs with MUSTER_FIELDS as bytes, for processes of one program: field after field, numbers as
// they lie in memory, a text or a list behind its length (u32), what is optional behind whether it
// is there. Reading trusts nothing: what is too short or too long is no value. Pure.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace muster {

class Packer {
 public:
  template <class Value>
  void put(const Value& value) {
    if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      Value::fields(value, [this](const char*, const auto& field) { this->put(field); });
    }
  }
  void put(const std::string& text) {
    put(static_cast<std::uint32_t>(text.size()));
    bytes += text;
  }
  template <class Value>
  void put(const std::vector<Value>& list) {
    put(static_cast<std::uint32_t>(list.size()));
    if constexpr (std::is_arithmetic_v<Value>) {
      bytes.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(Value));
    } else {
      for (const Value& value : list) put(value);
    }
  }
  template <class Value>
  void put(const std::optional<Value>& value) {
    put(value.has_value());
    if (value) put(*value);
  }

  std::string bytes;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : left_(bytes) {}

  template <class Value>
  void read(Value& value) {
    if constexpr (std::is_arithmetic_v<Value> || std::is_enum_v<Value>) {
      const std::string_view raw = take(sizeof value);
      if (raw.size() == sizeof value) std::memcpy(&value, raw.data(), sizeof value);
    } else {
      Value::fields(value, [this](const char*, auto& field) { this->read(field); });
    }
  }
  void read(bool& flag) {
    std::uint8_t byte = 0;
    read(byte);
    flag = byte == 1;
    good_ = good_ && byte <= 1;
  }
  void read(std::string& text) {
    std::uint32_t length = 0;
    read(length);
    text = take(length);
  }
  template <class Value>
  void read(std::vector<Value>& list) {
    std::uint32_t count = 0;
    read(count);
    if constexpr (std::is_arithmetic_v<Value>) {
      const std::string_view raw = take(count * sizeof(Value));
      list.resize(raw.size() / sizeof(Value));
      if (!raw.empty()) std::memcpy(list.data(), raw.data(), raw.size());
    } else {
      for (std::uint32_t i = 0; i < count && good_; ++i) read(list.emplace_back());
    }
  }
  template <class Value>
  void read(std::optional<Value>& value) {
    bool is_there = false;
    read(is_there);
    if (is_there) read(value.emplace());
  }
  bool read_all() const { return good_ && left_.empty(); }

 private:
  std::string_view take(std::size_t count) {
    good_ = good_ && count <= left_.size();
    if (!good_) return {};
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }

  std::string_view left_;
  bool good_ = true;
};

template <class Value>
std::string packed(const Value& value) {
  Packer packer;
  packer.put(value);
  return std::move(packer.bytes);
}

// Nothing when these are not the bytes of one.
template <class Value>
std::optional<Value> unpacked(std::string_view bytes) {
  Value value{};
  Unpacker unpacker(bytes);
  unpacker.read(value);
  if (!unpacker.read_all()) return std::nullopt;
  return value;
}

}  // namespace muster
