#include "launcher/wire/message_codec.h"

#include "launcher/wire/header_limits.h"
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

enum class UnknownFields { ignored, refused };

template <class Variant>
Result<Received<Variant>> decode_any(Frame frame,
                                     UnknownFields unknown_fields = UnknownFields::ignored) {
  try {
    check_header_limits(frame.header);
    const Json header = Json::from_cbor(frame.header);
    const auto kind = header.at("kind").get<std::string>();
    Variant message;
    if (!read_kind(header, kind, message)) {
      return Error{"the peer sent a message of the unknown kind '" + kind + "'"};
    }
    if (unknown_fields == UnknownFields::refused) {
      if (const auto field = unknown_field(header, header_of(message))) {
        return Error{"the peer is a newer muster: its message '" + kind + "' has the field '" +
                     *field + "', which this one does not know"};
      }
    }
    return Received<Variant>{std::move(message), std::move(frame.payload)};
  } catch (const std::exception& failure) {
    return Error{std::string("the peer sent a malformed message: ") + failure.what()};
  }
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

Result<Received<ToAgent>> decode_to_agent(Frame frame) {
  return decode_any<ToAgent>(std::move(frame));
}
Result<Received<FromAgent>> decode_from_agent(Frame frame) {
  return decode_any<FromAgent>(std::move(frame));
}
Result<Received<ToController>> decode_to_controller(Frame frame) {
  return decode_any<ToController>(std::move(frame), UnknownFields::refused);
}
Result<Received<FromController>> decode_from_controller(Frame frame) {
  return decode_any<FromController>(std::move(frame));
}

Result<Received<ToRelay>> decode_to_relay(Frame frame) {
  return decode_any<ToRelay>(std::move(frame));
}
Result<Received<FromRelay>> decode_from_relay(Frame frame) {
  return decode_any<FromRelay>(std::move(frame));
}

}  // namespace muster
