"""Advice that a small change of the program's text follows."""

from __future__ import annotations

# By program: the finding, and what its advice changes in the text of the program.
EDITS = {
    "two_banks/both_banks_concatenated": (
        "memory_growth",
        "for name in banks}",
        "[-512:] for name in banks}",
    ),
    "hidden_histories/histories_stacked": (
        "memory_growth",
        "[None]])",
        "[None]])[-1:]",
    ),
    "segmentation/masks_of_an_epoch": (
        "batches_kept",
        "            labels.append(label)",
        "            labels.append(label)\n            del probabilities[:-1], labels[:-1]",
    ),
    "fine_tuning/blocks_in_eval_mode": (
        "activations_dominate",
        "    model.eval()",
        "    model.train()",
    ),
    "forecast/residuals_of_an_epoch": (
        "batches_kept",
        "self.kept[number] =",
        "self.kept[0] =",
    ),
    "adapter/base_with_gradients": (
        "gradients_kept",
        "    model = Adapted()",
        "    model = Adapted()\n    model.base.requires_grad_(False)",
    ),
    "phases/optimizer_of_each_phase": (
        "memory_growth",
        "        history[phase] =",
        "        history.clear()\n        history[phase] =",
    ),
    "evidence/state_of_embeddings": (
        "optimizer_state_dominates",
        "Adam(model.parameters())",
        "SGD(model.parameters(), 0.1)",
    ),
    "second_order/history_is_full": (
        "optimizer_state_dominates",
        "history_size=6",
        "history_size=3",
    ),
    "held_out_lbfgs/long_history": (
        "optimizer_state_dominates",
        "history_size=10",
        "history_size=5",
    ),
    "vit/evaluation_of_everything": (
        "peak_outside_training",
        "12 * architecture.samples",
        "training.samples",
    ),
    "cnn/evaluation_of_everything": (
        "peak_outside_training",
        "12 * architecture.samples",
        "training.samples",
    ),
    "evidence/target_with_gradients": (
        "gradients_kept",
        "copy.deepcopy(model)",
        "copy.deepcopy(model).requires_grad_(False)",
    ),
    "evidence/ensemble_without_state": (
        "model_copies",
        "range(3)",
        "range(1)",
    ),
    "evidence/checkpoint_stays": (
        "model_copies",
        "load_state_dict(weights)",
        "load_state_dict(weights)\n    del weights",
    ),
    "evidence/gradients_with_graph": (
        "memory_growth",
        "        optimizer.step()",
        "        optimizer.step()\n        task.zero_grad()",
    ),
    "cycles/exception_with_frames": (
        "garbage_in_cycles",
        "            failure = error",
        "            failure = repr(error)",
    ),
    "everyday/hidden_state_with_its_graph": (
        "activations_dominate",
        "model(x, hidden)",
        "model(x, hidden.detach())",
    ),
    "everyday/losses_of_sequences_summed": (
        "activations_dominate",
        "loss = loss + model(torch.randn(64, 8, 32))[0].square().mean()\n"
        "        step_of(optimizer, loss)",
        "model(torch.randn(64, 8, 32))[0].square().mean().backward()\n"
        "        optimizer.step()\n"
        "        optimizer.zero_grad()",
    ),
    "everyday/folds_with_their_optimizers": (
        "model_copies",
        "results.append((model, optimizer))",
        "del model, optimizer",
    ),
    "everyday/schedulers_of_all_epochs": (
        "memory_growth",
        "schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 5))",
        "schedulers[:] = [torch.optim.lr_scheduler.StepLR(optimizer, 5)]",
    ),
    "everyday/generation_with_graph": (
        "memory_growth",
        "Decoder().eval()",
        "Decoder().eval().requires_grad_(False)",
    ),
    "everyday/features_concatenated": (
        "one_line_dominates",
        "torch.empty(0, 1024)\n"
        "    with torch.no_grad():\n"
        "        for _ in range(batches):\n"
        "            features = torch.cat([features, model(torch.randn(64, 64))])",
        "torch.empty(batches, 64, 1024)\n"
        "    with torch.no_grad():\n"
        "        for batch in range(batches):\n"
        "            features[batch] = model(torch.randn(64, 64))",
    ),
    "everyday/embedding_with_dense_gradient": (
        "one_tensor_dominates",
        "nn.Embedding(40_000, 64)",
        "nn.Embedding(40_000, 64, sparse=True)",
    ),
    "reported/outputs_of_the_last_evaluation": (
        "batches_kept",
        "outputs.append(model(torch.randn(64, 256)))",
        "outputs.append(model(torch.randn(64, 256)))\n        outputs.clear()",
    ),
    "reported/attributes_of_earlier_calls": (
        "never_used_again",
        "module.input, module.output = ",
        "",
    ),
    "kept/pool_of_generated": (
        "graph_without_backward",
        "fake = model(torch.randn(4, 3, 48, 48))",
        "fake = model(torch.randn(4, 3, 48, 48)).detach()",
    ),
    "kept/samples_with_graph": (
        "graph_without_backward",
        "x = x - 0.1 * model(x)",
        "with torch.no_grad():\n                x = x - 0.1 * model(x)",
    ),
    "kept/teacher_with_graph": (
        "graph_without_backward",
        "target = teacher(x)",
        "with torch.no_grad():\n            target = teacher(x)",
    ),
    "kept/logits_concatenated": (
        "peak_outside_training",
        "joined(logits, model(x))",
        "joined(logits, model(x).argmax(-1, keepdim=True))",
    ),
    "kept/logits_listed": (
        "peak_outside_training",
        "model(torch.randint(0, 2000, (128,))))",
        "model(torch.randint(0, 2000, (128,))).argmax(-1, keepdim=True))",
    ),
    "kept/exceptions_of_bad_batches": (
        "memory_growth",
        "failures.append(error)",
        "failures.append(str(error))",
    ),
}
