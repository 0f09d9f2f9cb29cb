#include "runtime/checkpoint/certificate.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/file/durable_file.h"
#include "runtime/checkpoint/manifest_fields.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/protocol/checkpoint_layout.h"

namespace muster {
namespace {

using namespace fields;

constexpr std::uint64_t certificate_limit_bytes = 1ull << 20;
constexpr const char* quarantined_word = "QUARANTINED";
constexpr std::array<const char*, 3> grade_words{"COMMITTED", "SANE", "CERTIFIED"};

Json number_or_null(const std::optional<std::uint64_t>& number) {
  return number ? Json(*number) : Json(nullptr);
}

std::optional<std::uint64_t> optional_number(const Json& json, const char* key) {
  if (member(json, key).is_null()) return std::nullopt;
  return whole_number(json, key);
}

CheckpointStanding standing_of(const Json& json) {
  const std::string state = text(json, "state");
  if (state == quarantined_word) {
    return CheckpointQuarantine{text(json, "reason"), optional_number(json, "suspect_from")};
  }
  for (std::size_t i = 0; i < grade_words.size(); ++i) {
    if (state == grade_words[i]) return static_cast<CheckpointGrade>(i);
  }
  throw FieldError("state: unknown");
}

Certificate certificate_of(const Json& json) {
  if (text(json, "format") != "muster-cert") throw FieldError("format: expected muster-cert");
  if (whole_number(json, "version") != 1) throw FieldError("version: this reader knows only 1");
  Certificate certificate;
  certificate.checkpoint = text(json, "ckpt");
  certificate.standing = standing_of(json);
  certificate.at_step = optional_number(json, "at_step");
  certificate.generation = whole_number(json, "set_by_gen");
  for (const Json& sentence : list(json, "evidence")) {
    if (!sentence.is_string()) throw FieldError("evidence: expected texts");
    certificate.evidence.push_back(sentence.get<std::string>());
  }
  return certificate;
}

}  // namespace

const char* standing_word(const CheckpointStanding& standing) {
  const auto* grade = std::get_if<CheckpointGrade>(&standing);
  return grade != nullptr ? grade_words[static_cast<std::size_t>(*grade)] : quarantined_word;
}

std::string format_certificate(const Certificate& certificate) {
  const auto* bad = std::get_if<CheckpointQuarantine>(&certificate.standing);
  const Json json = {{"format", "muster-cert"},
                     {"version", 1},
                     {"ckpt", certificate.checkpoint},
                     {"state", standing_word(certificate.standing)},
                     {"reason", bad != nullptr ? Json(bad->reason) : Json(nullptr)},
                     {"suspect_from", bad != nullptr ? number_or_null(bad->suspect_from) : Json()},
                     {"evidence", certificate.evidence},
                     {"at_step", number_or_null(certificate.at_step)},
                     {"set_by_gen", certificate.generation}};
  return seal_json(json.dump(-1, ' ', false, Json::error_handler_t::replace));
}

Checked<Certificate> parse_certificate(std::string_view text) {
  if (!is_committed_json(text)) {
    return CheckpointFault{"the certificate is torn or its checksum is wrong"};
  }
  try {
    return certificate_of(parse_json(text));
  } catch (const FieldError& error) {
    return CheckpointFault{error.what()};
  } catch (const Json::exception& error) {
    return CheckpointFault{std::string("not valid JSON: ") + error.what()};
  }
}

Checked<Certificate> read_certificate(const std::string& path) {
  const std::string name = std::filesystem::path(normal_path(path)).filename().string();
  const std::string file = path + "/" + checkpoint_cert_name;
  std::error_code code;
  if (!std::filesystem::exists(file, code) && !code) {
    Certificate none;
    none.checkpoint = name;
    return none;
  }
  const auto content = read_checkpoint_text(file, certificate_limit_bytes);
  if (!content) return content.fault();
  auto certificate = parse_certificate(content.value());
  if (!certificate) return CheckpointFault{file + ": " + certificate.reason()};
  if (certificate.value().checkpoint != name) {
    return CheckpointFault{file + ": belongs to " + certificate.value().checkpoint};
  }
  return certificate;
}

Checked<NoValue> write_certificate(const std::string& path, const Certificate& certificate) {
  return replace_durably(path, checkpoint_cert_name, format_certificate(certificate));
}

}  // namespace muster
