// Metrics in tables of steps: Lightning's metrics.csv (lightning/fabric/loggers/csv_logs.py), the
// history in the Trainer's trainer_state.json (transformers/trainer_callback.py), and MLflow's
// SQLite database (mlflow/store/tracking/dbmodels), read only, beside its writers.
#include <sqlite3.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "launcher/agent/foreign_checkpoints/files.h"
#include "launcher/agent/metric_sources/follow.h"
#include "runtime/protocol/crc32c.h"
#include "scheduler/text/number.h"
#include "scheduler/text/text.h"

namespace muster {

namespace {

constexpr std::int64_t table_limit_bytes = 64 << 20;
// What is kept of all tags (follow.cpp) has room in this; a cell takes 32 bytes and more.
constexpr std::size_t line_limit_bytes = 64 << 10;
constexpr std::int64_t columns_limit = 2000;

// Python's csv quotes a name that has a comma; quotes in it are passed over.
std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells(1);
  bool is_quoted = false;
  for (const char c : line) {
    if (c == '"') {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

// Rows without a step say nothing of when it was.
void take_row(const std::vector<std::string>& names, std::string_view line, const SourceFile& file,
              MetricLook& look) {
  if (line.size() > line_limit_bytes) return;
  const std::vector<std::string> cells = cells_of(line);
  const auto at = static_cast<std::size_t>(std::ranges::find(names, "step") - names.begin());
  if (cells.size() != names.size() || at == names.size()) return;
  const auto step = read_integer(cells[at]);
  for (std::size_t i = 0; step && i < names.size(); ++i) {
    const auto value = value_of(cells[i]);
    if (value && i != at) look.points.push_back(file.point(names[i], *value, step));
  }
}

constexpr double infinite = 1.797e308;  // what stands for it (sqlalchemy_store.py)
constexpr const char* added_rows =
    "SELECT rowid, key, value, timestamp, run_uuid, step, is_nan FROM metrics WHERE rowid > ?1 "
    "ORDER BY rowid";

std::string text_at(sqlite3_stmt* row, int column) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  return text == nullptr ? "" : text;
}

void take_row(sqlite3_stmt* row, const SourceFile& file, MetricLook& look) {
  if (sqlite3_column_int64(row, 3) < file.places.since_ms) return;
  const double stored = sqlite3_column_double(row, 2);
  const bool is_number = sqlite3_column_int(row, 6) == 0 && std::abs(stored) < infinite;
  const double value = is_number ? stored : std::numeric_limits<double>::quiet_NaN();
  look.points.push_back(file.point(text_at(row, 1), value, sqlite3_column_int64(row, 5)));
  look.points.back().writer = text_at(row, 4);
}

}  // namespace

void read_metrics_csv(const SourceFile& file, SourcePlace& place, MetricLook& look) {
  const auto text = read_small(file.path, table_limit_bytes);
  std::string_view left = text ? *text : std::string_view();
  if (!text && file.bytes > table_limit_bytes) file.note("too large, no more is read", place, look);
  if (!mentions(left, "\n")) return;
  const std::string_view header = trimmed(take_until(left, '\n'));
  if (header.size() > line_limit_bytes || std::ranges::count(header, ',') >= columns_limit) {
    return file.note("it has too many columns, and is not read", place, look);
  }
  const std::int64_t sum = crc32c(header);
  if (sum == place.header && std::ssize(*text) < place.at) place.told = 0;  // it is another's
  place.header = sum;
  place.at = std::ssize(*text);
  const std::vector<std::string> names = cells_of(header);
  std::int64_t row = 0;
  for (std::size_t end = 0; (end = left.find('\n')) != left.npos; left.remove_prefix(end + 1)) {
    look.is_cut |= look.points.size() >= points_limit;
    if (++row <= place.told) continue;
    if (look.is_cut) return;
    place.told = row;
    take_row(names, trimmed(left.substr(0, end)), file, look);
  }
}

// `place.told` is the last step of the history; one that is written at this moment waits.
void read_trainer_state(const SourceFile& file, SourcePlace& place, MetricLook& look) {
  constexpr std::int64_t limit_bytes = 16 << 20;
  const auto number = last_number(std::string_view(file.path).substr(0, file.path.rfind('/')));
  if (!number || *number <= place.at) return;
  const auto text = read_small(file.path, limit_bytes);
  const auto state = text ? read_json(*text) : nlohmann::json();
  if (!state.is_object()) return;
  const std::int64_t told = std::max(place.told, file.places.after_step);
  for (const auto& entry : state.value("log_history", nlohmann::json())) {
    const auto step = entry.is_object() ? entry.find("step") : entry.end();
    if (step == entry.end() || !step->is_number_integer()) continue;
    const auto at = step->get<std::int64_t>();
    if (at <= told) continue;
    place.told = std::max(place.told, at);
    for (const auto& [name, value] : entry.items()) {
      if (name == "step" || !(value.is_number() || value.is_null())) continue;
      const double none = std::numeric_limits<double>::quiet_NaN();
      look.points.push_back(file.point(name, value.is_null() ? none : value.get<double>(), at));
    }
  }
  place.at = *number;
}

void read_mlflow(const SourceFile& file, SourcePlace& place, MetricLook& look) {
  if (file.bytes == 0) return;  // not made yet
  sqlite3* opened = nullptr;
  int result = sqlite3_open_v2(file.path.c_str(), &opened, SQLITE_OPEN_READONLY, nullptr);
  const std::unique_ptr<sqlite3, decltype(&sqlite3_close)> database(opened, sqlite3_close);
  sqlite3_busy_timeout(opened, 2000);  // ms; writers hold the lock for some
  sqlite3_limit(opened, SQLITE_LIMIT_LENGTH, 1 << 20);
  sqlite3_stmt* rows = nullptr;
  if (result == SQLITE_OK) result = sqlite3_prepare_v2(opened, added_rows, -1, &rows, nullptr);
  const std::unique_ptr<sqlite3_stmt, decltype(&sqlite3_finalize)> held(rows, sqlite3_finalize);
  if (result == SQLITE_OK) {
    sqlite3_bind_int64(rows, 1, place.at);
    while (look.points.size() < points_limit && (result = sqlite3_step(rows)) == SQLITE_ROW) {
      place.at = sqlite3_column_int64(rows, 0);
      take_row(rows, file, look);
    }
    look.is_cut |= look.points.size() >= points_limit;
  }
  if (result == SQLITE_DONE || result == SQLITE_ROW || result == SQLITE_OK) return;
  const std::string error = sqlite3_errmsg(opened);
  file.note(result == SQLITE_BUSY ? "a writer holds it locked; what is in it is read later"
                                  : "it is not as MLflow 2 and 3 make it, and not read: " + error,
            place, look);
}

}  // namespace muster
