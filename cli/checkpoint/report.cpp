#include "cli/checkpoint/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "cli/terminal/escape.h"
#include "cli/terminal/terminal.h"
#include "runtime/checkpoint/resume_log.h"
#include "runtime/export/export.h"
#include "scheduler/text/duration.h"
#include "scheduler/text/number.h"

namespace muster {

namespace {

// The stored words SANE and CERTIFIED, as people see them.
std::string state_text(const CheckpointStanding& standing) {
  const std::string stored = standing_word(standing);
  return stored == "SANE" ? "VALID" : stored == "CERTIFIED" ? "VERIFIED" : stored;
}

Time created_at(std::uint64_t created_ns) {
  return from_ms(static_cast<std::int64_t>(created_ns / 1'000'000));
}

std::string hex(std::uint64_t value, int digits) {
  return printed("%0*llx", digits, static_cast<unsigned long long>(value));
}

// JSON has no NaN and no infinity.
Document number_or_null(double value) {
  return std::isfinite(value) ? Document(value) : Document(nullptr);
}

CheckpointFacts facts_of(const Manifest& manifest) {
  CheckpointFacts facts{0, manifest.created_ns, manifest.world, manifest.train.loss_ema};
  for (const ShardRecord& shard : manifest.shards) facts.bytes += shard.bytes;
  return facts;
}

std::string state_of(const RejectedCheckpoint& rejected, const std::string& path) {
  if (rejected.quarantine) return state_text(*rejected.quarantine);
  if (!rejected.committed) return "INCOMPLETE";
  return read_manifest(path) ? state_text(standing_of_checkpoint(path)) : "CORRUPT";
}

// A certificate that speaks of something else than the quarantine is older than it.
std::string said_of_quarantine(const CheckpointLine& line) {
  const bool is_said = !line.evidence.empty() && !line.evidence.front().empty();
  return is_said && is_certified_bad(line.path) ? ": " + line.evidence.front() : "";
}

std::string reason_of(const RejectedCheckpoint& rejected, const CheckpointLine& line) {
  if (rejected.quarantine) {
    return rejected.reason + ": " + rejected.quarantine->reason + said_of_quarantine(line);
  }
  return rejected.committed ? rejected.reason : "was never committed, or is being written";
}

CheckpointLine line_of(const std::string& root, const std::string& directory) {
  CheckpointLine line;
  line.name = parse_checkpoint_directory_name(directory).value_or(CheckpointName{});
  line.path = root + "/" + directory;
  line.pinned = is_pinned(line.path);
  line.pin_reason = pin_reason(line.path);
  if (const auto certificate = read_certificate(line.path)) {
    line.evidence = certificate.value().evidence;
  }
  if (const auto manifest = read_manifest_alone(line.path)) {
    line.facts = facts_of(manifest.value());
  }
  return line;
}

std::string remark_of(const CheckpointLine& line) {
  std::string remark = line.newest ? "newest usable" : line.reason;
  if (line.pinned) remark = "pinned" + (remark.empty() ? "" : ", " + remark);
  return remark;
}

Document line_document(const CheckpointLine& line) {
  Document out;
  out["name"] = checkpoint_directory_name(line.name);
  out["path"] = line.path;
  out["step"] = line.name.step;
  out["generation"] = line.name.generation;
  out["state"] = line.state;
  out["usable"] = line.reason.empty();
  out["newest"] = line.newest;
  out["reason"] = value_or_null(line.reason);
  out["pinned"] = line.pinned;
  const auto& facts = line.facts;
  out["bytes"] = facts ? Document(facts->bytes) : Document(nullptr);
  out["created_at"] = facts ? Document(utc_text(created_at(facts->created_ns))) : Document(nullptr);
  out["world"] = facts ? Document(facts->world) : Document(nullptr);
  out["loss_ema"] = facts ? number_or_null(facts->loss_ema) : Document(nullptr);
  return out;
}

Document shard_document(const ShardRecord& shard) {
  Document vitals;
  for (std::size_t plane = 0; plane < flat_planes; ++plane) {
    const TensorStats& of = shard.vitals[plane];
    vitals[flat_plane_names[plane]] = Document{{"nonfinite", of.nonfinite},
                                               {"absmax", number_or_null(double{of.absmax})},
                                               {"l2", number_or_null(of.l2)},
                                               {"hash", hex(of.hash, 16)}};
  }
  return Document{{"file", shard.file},
                  {"bytes", shard.bytes},
                  {"elements", {shard.range.lo, shard.range.hi}},
                  {"host", shard.host},
                  {"rank", shard.rank},
                  {"chunks", shard.chunk_crc32c.size()},
                  {"crc32c", hex(shard.file_crc32c, 8)},
                  {"vitals", vitals}};
}

Document train_document(const TrainState& train) {
  return Document{{"micro_batches", train.micro_batches},
                  {"micro_batch", train.micro_batch},
                  {"leaves", train.leaves},
                  {"seed", train.seed},
                  {"lr_step", train.lr_step},
                  {"loss_ema", number_or_null(train.loss_ema)},
                  {"skipped_in_a_row", train.skipped_in_a_row}};
}

Document data_document(const SamplerState& sampler) {
  return Document{{"order", sampler.kind},
                  {"epoch", sampler.epoch},
                  {"cursor", sampler.cursor},
                  {"bytes", sampler.data_bytes},
                  {"crc32c", hex(sampler.data_crc32c, 8)}};
}

Document parameter_document(const FlatParameter& param) {
  return Document{{"name", param.name},
                  {"shape", param.shape},
                  {"offset", param.offset},
                  {"decay", param.decay}};
}

std::uint64_t parameter_count(const FlatSpace& flat) {
  std::uint64_t count = 0;
  for (const FlatParameter& param : flat.params) count += param.size();
  return count;
}

// Null for what is no GPT of ours.
Document shape_document(const Manifest& manifest) {
  const auto model = exported_model(manifest);
  if (!model) return nullptr;
  const ExportedModel& shape = model.value();
  return Document{{"layers", shape.layers},         {"width", shape.width},
                  {"heads", shape.heads},           {"context", shape.context},
                  {"vocabulary", shape.vocabulary}, {"tied", shape.tied}};
}

std::string name_of(const CheckedCheckpoint& checked) {
  return std::filesystem::path(checked.path).filename().string();
}

const char* result_word(const CheckedCheckpoint& checked) {
  if (checked.unsealed) return "unsealed";
  return checked.verdict.good() ? "good" : "damaged";
}

}  // namespace

CheckpointLines checkpoint_lines(const std::string& root) {
  const CheckpointSearch search = search_checkpoints(root);
  CheckpointLines all{{}, search.trouble};
  for (const FoundCheckpoint& found : search.usable) {
    CheckpointLine line = line_of(root, found.directory);
    line.state = state_text(found.grade);
    line.newest = &found == search.newest();
    all.lines.push_back(std::move(line));
  }
  for (const RejectedCheckpoint& rejected : search.rejected) {
    CheckpointLine line = line_of(root, rejected.directory);
    line.state = state_of(rejected, line.path);
    line.reason = reason_of(rejected, line);
    all.lines.push_back(std::move(line));
  }
  std::ranges::sort(all.lines, std::greater<>{}, &CheckpointLine::name);
  return all;
}

Document lines_document(const std::vector<CheckpointLine>& lines) {
  return list_of(lines, line_document);
}

Table lines_table(const std::vector<CheckpointLine>& lines) {
  Table table({"CHECKPOINT", "STEP", "GEN", "STATE", "SIZE", "WHEN", "WORLD", "LOSS", "REMARK"});
  for (const CheckpointLine& line : lines) {
    const auto& facts = line.facts;
    table.add({checkpoint_directory_name(line.name), std::to_string(line.name.step),
               std::to_string(line.name.generation), line.state,
               facts ? bytes_text(facts->bytes) : "",
               facts ? local_text(created_at(facts->created_ns)) : "",
               facts ? std::to_string(facts->world) : "",
               facts ? printed("%.4f", facts->loss_ema) : "", remark_of(line)});
  }
  return table;
}

Document manifest_document(const Manifest& manifest, const CheckpointLine& line) {
  Document out = line_document(line);
  out["evidence"] = line.evidence;
  out["pin_reason"] = value_or_null(line.pin_reason);
  out["run_id"] = manifest.run_id;
  out["tokens"] = manifest.tokens;
  out["nodes"] = manifest.nodes;
  out["previous"] = value_or_null(manifest.previous);
  out["lineage"] = list_of(manifest.lineage, [](const GenerationFork& fork) {
    return Document{{"generation", fork.generation}, {"fork_step", fork.fork_step}};
  });
  out["code_hash"] = hex(manifest.code_hash, 16);
  out["config_hash"] = hex(manifest.config_hash, 16);
  out["state_hash"] = hex(manifest.state_hash, 16);
  out["replica"] = Document{{"hash", hex(manifest.replica.hash, 16)},
                            {"voters", manifest.replica.voters},
                            {"agree", manifest.replica.agree}};
  out["options"] = Document::object();
  for (const auto& [name, value] : manifest.train.config) out["options"][name] = value;
  out["train"] = train_document(manifest.train);
  out["data"] = data_document(manifest.train.sampler);
  out["model"] = Document{{"shape", shape_document(manifest)},
                          {"parameters", parameter_count(manifest.flat)},
                          {"elements", manifest.flat.numel},
                          {"layout", hex(layout_hash(manifest.flat), 16)},
                          {"tensors", list_of(manifest.flat.params, parameter_document)}};
  out["shards"] = list_of(manifest.shards, shard_document);
  return out;
}

Document checked_document(const std::vector<CheckedCheckpoint>& checked) {
  const auto damage = [](const CheckpointDamage& each) {
    return Document{{"file", each.file}, {"offset", each.offset_bytes}, {"what", each.what}};
  };
  return list_of(checked, [&](const CheckedCheckpoint& one) {
    return Document{{"name", name_of(one)},
                    {"path", one.path},
                    {"result", result_word(one)},
                    {"bytes", one.verdict.bytes},
                    {"damage", list_of(one.verdict.damage, damage)}};
  });
}

std::string checked_text(const std::vector<CheckedCheckpoint>& checked, bool color) {
  std::string out;
  for (const CheckedCheckpoint& one : checked) {
    const bool good = one.verdict.good();
    const Ink ink = one.unsealed ? Ink::yellow : good ? Ink::green : Ink::red;
    out += name_of(one) + "  " + inked(result_word(one), ink, color) + "  " +
           (one.unsealed ? "no manifest: it is being written, or was never finished"
                         : bytes_text(one.verdict.bytes)) +
           "\n";
    if (one.unsealed) continue;
    for (const CheckpointDamage& each : one.verdict.damage) {
      const std::string at =
          each.names_range ? "" : " at byte " + std::to_string(each.offset_bytes);
      out += "  " + one_line(each.file) + at + ": " + one_line(each.what) + "\n";
    }
  }
  return out;
}

}  // namespace muster
