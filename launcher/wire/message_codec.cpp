#include "launcher/wire/message_codec.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

template <class Variant>
Json header_of(const Variant& message) {
  Json header;
  std::visit(
      [&header](const auto& value) {
        write_json(header, value);
        header["kind"] = std::decay_t<decltype(value)>::kind;
      },
      message);
  return header;
}

template <class Variant>
std::string encode_any(const Variant& message, std::string_view payload) {
  std::string bytes;
  Json::to_cbor(header_of(message), bytes);
  return encode_frame(bytes, payload);
}

// What a header may cost before it is built in memory. The deepest message of ours nests eight
// levels; the library recurses once a level.
constexpr int header_depth_limit = 64;
// A tree of 100,000 files has 700,000 values; one empty value of a byte takes 16 to 80 in memory.
constexpr int header_values_limit = 4'000'000;

// Builds nothing: counts, and ends the parser by an exception.
class Limits : public Json::json_sax_t {
 public:
  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const Json::exception& why) override {
    throw std::runtime_error(why.what());
  }

 private:
  bool count() {
    if (++values_ > header_values_limit) throw std::runtime_error("it holds too many values");
    return true;
  }
  bool enter() {
    if (++depth_ > header_depth_limit) throw std::runtime_error("it nests too deeply");
    return count();
  }
  bool leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  int values_ = 0;
};

std::optional<std::string> below(const std::string& name, const Json& given, const Json& known) {
  const auto found = unknown_field(given, known);
  if (!found) return std::nullopt;
  return name + "." + *found;
}

}  // namespace

std::string encode(const ToAgent& m, std::string_view payload) { return encode_any(m, payload); }
std::string encode(const FromAgent& m, std::string_view payload) { return encode_any(m, payload); }
std::string encode(const ToController& m, std::string_view payload) {
  return encode_any(m, payload);
}
std::string encode(const FromController& m, std::string_view payload) {
  return encode_any(m, payload);
}
std::string encode(const ToRelay& m, std::string_view payload) { return encode_any(m, payload); }
std::string encode(const FromRelay& m, std::string_view payload) { return encode_any(m, payload); }

template <class Message>
Result<Received<Message>> decode(Frame frame) {
  try {
    Limits limits;
    Json::sax_parse(frame.header, &limits, Json::input_format_t::cbor);  // throws beyond them
    const Json header = Json::from_cbor(frame.header);
    const auto kind = header.at("kind").get<std::string>();
    Message message;
    if (!read_kind(header, kind, message)) {
      return Error{"the peer sent a message of the unknown kind '" + kind + "'"};
    }
    if constexpr (std::is_same_v<Message, ToController>) {
      if (const auto field = unknown_field(header, header_of(message))) {
        return Error{"the peer is a newer muster: its message '" + kind + "' has the field '" +
                     *field + "', which this one does not know"};
      }
    }
    return Received<Message>{std::move(message), std::move(frame.payload)};
  } catch (const std::exception& failure) {
    return Error{std::string("the peer sent a malformed message: ") + failure.what()};
  }
}

template Result<Received<ToAgent>> decode(Frame frame);
template Result<Received<FromAgent>> decode(Frame frame);
template Result<Received<ToController>> decode(Frame frame);
template Result<Received<FromController>> decode(Frame frame);
template Result<Received<ToRelay>> decode(Frame frame);
template Result<Received<FromRelay>> decode(Frame frame);

std::optional<std::string> unknown_field(const Json& given, const Json& known) {
  if (given.is_object() && known.is_object()) {
    for (const auto& [name, value] : given.items()) {
      if (value.is_null()) continue;
      const auto same = known.find(name);
      if (same == known.end()) return name;
      if (auto found = below(name, value, *same)) return found;
    }
  } else if (given.is_array() && known.is_array()) {
    for (std::size_t i = 0; i < given.size() && i < known.size(); ++i) {
      if (auto found = below(std::to_string(i), given[i], known[i])) return found;
    }
  }
  return std::nullopt;
}

}  // namespace muster
