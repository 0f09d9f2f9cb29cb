// The slow fp64 twins of the layers, of AdamW and of a whole model, by the equations that stand in
// the headers of the fast ones.
#pragma once

#include <cstddef>
#include <span>

#include "runtime/layer/attention.h"
#include "runtime/layer/gemm.h"
#include "runtime/layer/layers.h"
#include "runtime/model/gpt.h"
#include "runtime/optimizer/adamw.h"

namespace muster {

// Writes P, [batch, heads, context, context].
void attention_forward_reference(const AttentionShape& shape, std::span<const double> qkv,
                                 std::span<double> out, std::span<double> probabilities);

void attention_backward_reference(const AttentionShape& shape, std::span<const double> qkv,
                                  std::span<const double> probabilities,
                                  std::span<const double> dout, std::span<double> dqkv);

// The gradient comes in place of the logits.
double cross_entropy_reference(std::span<const Token> targets, std::size_t vocabulary,
                               std::span<double> logits);

void embedding_forward_reference(const EmbeddingShape& shape, std::span<const Token> tokens,
                                 std::span<const double> token_table,
                                 std::span<const double> position_table, std::span<double> x);

void embedding_backward_reference(const EmbeddingShape& shape, std::span<const Token> tokens,
                                  std::span<const double> dx, std::span<double> dtoken_table,
                                  std::span<double> dposition_table);

// By tanh.
void gelu_forward_reference(std::span<const double> x, std::span<double> y);

void gelu_backward_reference(std::span<const double> x, std::span<const double> dy,
                             std::span<double> dx);

void gemm_reference(const GemmShape& shape, const double* a, const double* b, double* c);

void layer_norm_forward_reference(const LayerNormShape& shape, std::span<const double> x,
                                  std::span<const double> gamma, std::span<const double> beta,
                                  std::span<double> y);

// Recomputes mean and rstd from x.
void layer_norm_backward_reference(const LayerNormShape& shape, std::span<const double> x,
                                   std::span<const double> gamma, std::span<const double> dy,
                                   std::span<double> dx, std::span<double> dgamma,
                                   std::span<double> dbeta);

void linear_forward_reference(const LinearShape& shape, std::span<const double> x,
                              std::span<const double> w, std::span<const double> b,
                              std::span<double> y);

void linear_backward_reference(const LinearShape& shape, std::span<const double> x,
                               std::span<const double> w, std::span<const double> dy,
                               std::span<double> dx, std::span<double> dw, std::span<double> db);

void adamw_reference(const AdamwSettings& settings, const AdamwStep& step,
                     std::span<const double> gradient, std::span<double> p, std::span<double> m,
                     std::span<double> v);

// The loss of a whole model.
double gpt_loss_reference(const GptShape& shape, std::size_t sequences,
                          std::span<const double> weights, std::span<const Token> tokens);

}  // namespace muster
