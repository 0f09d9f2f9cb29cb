#include <algorithm>
#include <array>

#include "health/checks/gpu/gpu_check.h"

namespace muster {

namespace {

// Rows that the InfoROM can hold as remapped.
constexpr std::int64_t remapped_rows_max = 512;
// Pages that it can hold as retired are 64.
constexpr double retired_pages_max = 63;
// Corrected errors from which a large provider's checks warn.
constexpr double dram_corrected_max = 20'000'000;
constexpr double sram_corrected_max = 10'000;
// Of a few hundred to a few thousand banks; no public number.
constexpr double low_banks_max = 16;

std::string whole(double number) {
  return std::to_string(static_cast<std::int64_t>(number));
}

GpuOutcome judge_ecc_mode(const GpuView& gpu) {
  const auto wanted = gpu.situation.profile.gpu.ecc;
  if (!wanted) return std::nullopt;
  GpuCheck check(gpu, "gpu.ecc_mode");
  const auto current = check.number({"ecc.current", "field.1"});
  const auto pending = check.number({"ecc.pending", "field.2"});
  if (!current || !pending) return check.unread();
  const std::int64_t expected = *wanted ? 1 : 0;
  return check.judged(*current == expected && *pending == expected,
                      std::to_string(*current) + ", pending " + std::to_string(*pending),
                      std::to_string(expected));
}

GpuOutcome judge_double_bits(const GpuView& gpu) {
  GpuCheck check(gpu, "gpu.ecc_dbe");
  const auto since_load = check.growth({"field.4", "ecc.unc.volatile"});
  const auto since_made = check.growth({"field.6", "ecc.unc.aggregate"});
  if (!since_load && !since_made) return check.unread();
  const std::int64_t grown = std::max(since_load.value_or(0), since_made.value_or(0));
  return check.judged(grown == 0, std::to_string(grown), "0");
}

GpuOutcome judge_corrected(const GpuView& gpu) {
  GpuCheck check(gpu, "gpu.ecc_sbe");
  const auto dram = check.number({"ecc.dram.cor.aggregate", "ecc.dram.cor.volatile"});
  const auto sram = check.number({"ecc.sram.cor.aggregate", "ecc.sram.cor.volatile"});
  if (!dram && !sram) return check.unread();
  const double dram_max = check.limit("dram_max", dram_corrected_max);
  const double sram_max = check.limit("sram_max", sram_corrected_max);
  const auto dram_count = static_cast<double>(dram.value_or(0));
  const auto sram_count = static_cast<double>(sram.value_or(0));
  return check.judged(dram_count <= dram_max && sram_count <= sram_max,
                      "DRAM " + whole(dram_count) + ", SRAM " + whole(sram_count),
                      "DRAM <= " + whole(dram_max) + ", SRAM <= " + whole(sram_max));
}

GpuOutcome judge_sram(const GpuView& gpu) {
  GpuCheck check(gpu, "gpu.sram_unc");
  const auto exceeded = check.number({"sram.exceeded"});
  if (!exceeded) return check.unread();
  if (*exceeded != 0)
    return check.failed("threshold exceeded", "not exceeded", {Remedy::rma, {}, false});
  const auto parity = check.growth({"sram.parity.aggregate"});
  const auto secded = check.growth({"sram.secded.aggregate"});
  const std::int64_t grown = parity.value_or(0) + secded.value_or(0);
  return check.judged(grown == 0, std::to_string(grown) + " more", "0 more, not exceeded");
}

GpuOutcome judge_zero(const GpuView& gpu, std::string_view id,
                      std::initializer_list<std::string_view> keys) {
  GpuCheck check(gpu, id);
  const auto value = check.number(keys);
  if (!value) return check.unread();
  return check.judged(*value == 0, std::to_string(*value), "0");
}

GpuOutcome judge_remap_failure(const GpuView& gpu) {
  return judge_zero(gpu, "gpu.remap_failure", {"remap.failure", "field.145"});
}
GpuOutcome judge_remap_pending(const GpuView& gpu) {
  return judge_zero(gpu, "gpu.remap_pending", {"remap.pending", "field.144"});
}
GpuOutcome judge_unrepairable(const GpuView& gpu) {
  return judge_zero(gpu, "gpu.unrepairable", {"unrepairable"});
}

GpuOutcome judge_remap_count(const GpuView& gpu) {
  GpuCheck check(gpu, "gpu.remap_count");
  const auto rows = check.number({"remap.unc", "field.143"});
  if (!rows) return check.unread();
  const std::string expected = "< " + std::to_string(remapped_rows_max) + ", banks have spares";
  if (*rows >= remapped_rows_max) return check.failed(std::to_string(*rows), expected);
  const auto none = check.number({"remap.banks.none"});
  const auto low = check.number({"remap.banks.low"});
  const std::string value = std::to_string(*rows) + ", banks without spares " +
                            std::to_string(none.value_or(0)) + ", with few " +
                            std::to_string(low.value_or(0));
  const double low_max = check.limit("low_banks_max", low_banks_max);
  if (none.value_or(0) > 0 || static_cast<double>(low.value_or(0)) > low_max)
    return check.failed(value, expected, only_warn);
  return check.passed(value, expected);
}

GpuOutcome judge_retired_pages(const GpuView& gpu) {
  GpuCheck check(gpu, "gpu.retired_pages");
  const auto single = check.number({"retired.sbe", "field.29"});
  const auto twice = check.number({"retired.dbe", "field.30"});
  if (!single || !twice) return check.unread();
  const std::int64_t pages = *single + *twice;
  const double most = check.limit("pages_max", retired_pages_max);
  if (static_cast<double>(pages) > most)
    return check.failed(std::to_string(pages), "<= " + whole(most));
  const auto pending = check.number({"retired.pending", "field.31"});
  if (!pending) return check.unread();
  if (*pending != 0)
    return check.failed("pages wait for a reset", "none", {Remedy::reset, {}, false});
  return check.passed(std::to_string(pages), "<= " + whole(most));
}

GpuOutcome judge_repair_pending(const GpuView& gpu) {
  GpuCheck check(gpu, "gpu.repair_pending");
  const auto channel = check.number({"repair.channel"});
  const auto tpc = check.number({"repair.tpc"});
  if (!channel || !tpc) return check.unread();
  return check.judged(*channel == 0 && *tpc == 0,
                      "channel " + std::to_string(*channel) + ", TPC " + std::to_string(*tpc),
                      "channel 0, TPC 0");
}

constexpr std::array<GpuJudge, 10> memory_judges{
    judge_ecc_mode,      judge_double_bits,   judge_corrected,   judge_sram,
    judge_remap_failure, judge_remap_pending, judge_remap_count, judge_retired_pages,
    judge_unrepairable,  judge_repair_pending};

}  // namespace

std::span<const GpuJudge> gpu_memory_judges() {
  return memory_judges;
}

}  // namespace muster
