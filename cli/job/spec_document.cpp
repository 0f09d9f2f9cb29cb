#include "cli/job/spec_document.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "launcher/wire/json_fields.h"
#include "launcher/wire/record_codec.h"
#include "scheduler/text/spelling.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr const char* masked = "***";
// A shorter value would be found in many places that have nothing to do with it.
constexpr std::size_t shortest_replaced = 4;

bool is_secret_name(const std::string& name) {
  static constexpr std::array<std::string_view, 13> words{
      "key",  "apikey",     "token",      "secret",      "password", "passwd", "pwd",
      "pass", "passphrase", "credential", "credentials", "sas",      "pat"};
  const std::string plain = folded(name);  // MY-Key.x as my_key.x
  return std::ranges::any_of(words_in(plain, "_."), [](std::string_view part) {
    return std::ranges::find(words, part) != words.end();
  });
}

// `https://user:password@host`, `…?sig=…`.
void mask_urls(std::string& text) {
  for (std::size_t at = 0; (at = text.find("://", at)) != text.npos; at += 3) {
    const std::size_t end = std::min(text.find_first_of("/ \t\n\"'", at + 3), text.size());
    const std::size_t host = text.rfind('@', end);
    if (host != text.npos && host > at + 3) text.replace(at + 3, host - at - 3, masked);
  }
  for (const std::string name : {"?sig=", "&sig=", "?token=", "&token="}) {
    for (std::size_t at = 0; (at = text.find(name, at)) != text.npos;) {
      at += name.size();
      const std::size_t end = std::min(text.find_first_of("& \t\n\"'", at), text.size());
      text.replace(at, end - at, masked);
    }
  }
}

void mask_texts(Document& value) {
  if (value.is_string()) {
    std::string text = with_expressions(value.get<std::string>());
    mask_urls(text);
    value = text;
  }
  for (Document& item : value) {
    if (value.is_structured()) mask_texts(item);
  }
}

template <class T>
void in_seconds(Document&, const T&) {}
template <class R, class P>
void in_seconds(Document& out, const std::chrono::duration<R, P>& value) {
  const auto ms = std::chrono::duration_cast<Milliseconds>(value).count();
  out = ms % 1000 == 0 ? Document(ms / 1000) : Document(static_cast<double>(ms) / 1000);
}
template <HasFields T>
void in_seconds(Document& out, const T& value);
template <class T>
void in_seconds(Document& out, const std::optional<T>& value) {
  if (value) in_seconds(out, *value);
}
template <class T>
void in_seconds(Document& out, const std::vector<T>& values) {
  for (std::size_t i = 0; i < values.size() && i < out.size(); ++i) in_seconds(out[i], values[i]);
}
template <HasFields T>
void in_seconds(Document& out, const T& value) {
  T::fields(value, [&out](const char* name, const auto& field) {
    const auto found = out.find(name);
    if (found != out.end()) in_seconds(*found, field);
  });
}

}  // namespace

JobSpec without_secrets(JobSpec spec) {
  const auto hide = [&spec](std::string& value) {
    const bool is_long = value.size() >= shortest_replaced;
    if (is_long) spec.command = replaced(std::move(spec.command), value, masked);
    value = masked;
  };
  for (auto& [name, value] : spec.environment_variables) {
    if (is_secret_name(name)) hide(value);
  }
  for (auto& [name, input] : spec.inputs) {
    if (input.is_literal && is_secret_name(name)) hide(input.literal);
  }
  for (auto& [name, value] : spec.tags) {
    if (is_secret_name(name)) hide(value);
  }
  mask_urls(spec.command);
  return spec;
}

std::string with_expressions(const std::string& text) {
  return replaced(replaced(text, "\x01", "${{"), "\x02", "}}");
}

Document spec_document(const JobSpec& spec) {
  const JobSpec shown = without_secrets(spec);
  Document out = Document::parse(encode_spec(shown), nullptr, false);
  in_seconds(out, shown);
  mask_texts(out);
  return out;
}

}  // namespace muster
