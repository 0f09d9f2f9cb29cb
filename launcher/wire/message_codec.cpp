#include "launcher/wire/message_codec.h"

#include "launcher/wire/json_fields.h"

namespace muster {

namespace {

template <class Variant>
std::string encode_any(const Variant& message, std::string_view payload) {
  Json header;
  std::visit(
      [&header](const auto& value) {
        write_json(header, value);
        header["kind"] = std::decay_t<decltype(value)>::kind;
      },
      message);
  std::string bytes;
  Json::to_cbor(header, bytes);
  return encode_frame(bytes, payload);
}

template <class Variant>
Result<Received<Variant>> decode_any(Frame frame) {
  try {
    const Json header = Json::from_cbor(frame.header);
    const auto kind = header.at("kind").get<std::string>();
    Variant message;
    if (!read_kind(header, kind, message)) {
      return Error{"the peer sent a message of the unknown kind '" + kind + "'"};
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

Result<Received<ToAgent>> decode_to_agent(Frame frame) {
  return decode_any<ToAgent>(std::move(frame));
}
Result<Received<FromAgent>> decode_from_agent(Frame frame) {
  return decode_any<FromAgent>(std::move(frame));
}
Result<Received<ToController>> decode_to_controller(Frame frame) {
  return decode_any<ToController>(std::move(frame));
}
Result<Received<FromController>> decode_from_controller(Frame frame) {
  return decode_any<FromController>(std::move(frame));
}

}  // namespace muster
