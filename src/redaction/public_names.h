// Names that Python and torch use themselves, separated by spaces: builtins and containers, modules
// and optimizers, what nodes of autograd save. Written by tools/public_names.py.
#pragma once

#include <string_view>

namespace plimsoll::redaction {

inline constexpr std::string_view kPublicNames = R"(
A ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax AdaptiveAvgPool1d AdaptiveAvgPool2d
AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d
AlphaDropout ArithmeticError AssertionError AsyncGeneratorType AttributeError AvgPool1d AvgPool2d
AvgPool3d BCELoss BCEWithLogitsLoss BaseException BaseExceptionGroup BatchNorm1d BatchNorm2d
BatchNorm3d BatchSampler Bilinear BlockingIOError BrokenPipeError Buffer BufferError
BuiltinFunctionType BuiltinMethodType BytesWarning CELU CTCLoss CellType ChainDataset ChainMap
ChannelShuffle ChildProcessError CircularPad1d CircularPad2d CircularPad3d ClassMethodDescriptorType
CodeType ConcatDataset ConnectionAbortedError ConnectionError ConnectionRefusedError
ConnectionResetError ConstantPad1d ConstantPad2d ConstantPad3d Container Conv1d Conv2d Conv3d
ConvTranspose1d ConvTranspose2d ConvTranspose3d CoroutineType CosineEmbeddingLoss CosineSimilarity
Counter CrossEntropyLoss CrossMapLRN2d DFIterDataPipe DataChunk DataLoader DataParallel Dataset
DeprecationWarning DistributedSampler Dropout Dropout1d Dropout2d Dropout3d DynamicClassAttribute
ELU EOFError Ellipsis EllipsisType Embedding EmbeddingBag EncodingWarning EnvironmentError Exception
ExceptionGroup False FeatureAlphaDropout FileExistsError FileNotFoundError Flatten
FloatingPointError Fold FractionalMaxPool2d FractionalMaxPool3d FrameType FunctionType FutureWarning
GELU GLU GRU GRUCell GaussianNLLLoss Generator GeneratorExit GeneratorType GenericAlias
GetSetDescriptorType GroupNorm Hardshrink Hardsigmoid Hardswish Hardtanh HingeEmbeddingLoss
HuberLoss IOError Identity ImportError ImportWarning IndentationError IndexError InstanceNorm1d
InstanceNorm2d InstanceNorm3d InterruptedError IsADirectoryError IterDataPipe IterableDataset
KLDivLoss KeyError KeyboardInterrupt L L1Loss LBFGS LPPool1d LPPool2d LPPool3d LSTM LSTMCell LU
LambdaType LayerNorm LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d
LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU Linear LinearCrossEntropyLoss
LinearCrossEntropyOptions LocalResponseNorm LogSigmoid LogSoftmax LookupError MSELoss MapDataPipe
MappingProxyType MarginRankingLoss MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d
MemberDescriptorType MemoryError MethodDescriptorType MethodType MethodWrapperType Mish Module
ModuleDict ModuleList ModuleNotFoundError ModuleType MultiLabelMarginLoss MultiLabelSoftMarginLoss
MultiMarginLoss MultiheadAttention Muon NAdam NLLLoss NLLLoss2d NameError None NoneType
NotADirectoryError NotImplemented NotImplementedError NotImplementedType OSError Optimizer
OrderedDict OverflowError P PReLU PairwiseDistance Parameter ParameterDict ParameterList
PendingDeprecationWarning PermissionError PixelShuffle PixelUnshuffle PoissonNLLLoss
ProcessLookupError Q R RAdam RMSNorm RMSprop RNN RNNBase RNNCell RNNCellBase RReLU RandomSampler
ReLU ReLU6 RecursionError ReferenceError ReflectionPad1d ReflectionPad2d ReflectionPad3d
ReplicationPad1d ReplicationPad2d ReplicationPad3d ResourceWarning Rprop RuntimeError RuntimeWarning
S SELU SGD Sampler Sequential SequentialSampler SiLU Sigmoid SimpleNamespace SmoothL1Loss
SoftMarginLoss Softmax Softmax2d Softmin Softplus Softshrink Softsign SparseAdam StackDataset
StopAsyncIteration StopIteration Storage Subset SubsetRandomSampler SyncBatchNorm SyntaxError
SyntaxWarning SystemError SystemExit TabError Tanh Tanhshrink Tensor TensorDataset Threshold
TimeoutError TracebackType Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder
TransformerEncoderLayer TripletMarginLoss TripletMarginWithDistanceLoss True TypeError U
UnboundLocalError Unflatten Unfold UnicodeDecodeError UnicodeEncodeError UnicodeError
UnicodeTranslateError UnicodeWarning UninitializedBuffer UninitializedParameter UnionType Upsample
UpsamplingBilinear2d UpsamplingNearest2d UserDict UserList UserString UserWarning ValueError Vh
Warning WeightedRandomSampler WrapperDescriptorType ZeroDivisionError ZeroPad1d ZeroPad2d ZeroPad3d
abs aiter all and anext any args as ascii assert async attn_bias attn_mask await b batch1 batch2
bias bin bool break breakpoint buffer bytearray bytes callable chr class classmethod compile complex
condition continue copyright coroutine credits cu_seqlens_k cu_seqlens_q cum_seq_k cum_seq_q cx cx_
data def defaultdict defaults del delattr deque dict dir divmod dropout_state eigenvalues
eigenvectors elif else end enumerate eval except exec exit exponent filter finally float for format
from frozenset functional_datapipe g getattr global globals grad_out grad_output grid
guaranteed_datapipes_determinism hasattr hash help hex hidden_bias hidden_gates hx hx_ i1 i2 i3 id
if imag import in index indices input input2 input3 input_bias input_gates input_lengths int inverse
is is_target isinstance issubclass iter key kwargs lambda len lengths license list locals log_probs
log_sumexp logsumexp map mask mat mat1 mat2 max mean memoryview min namedtuple new_class next noise
non_deterministic nonlocal not object oct offs offsets open or ord other output padded param_groups
params pass per_sample_weights philox_offset philox_seed pivots pos_weight pow prepare_class print
property query quit raise range real repr reserve reserveSpace resolve_bases result result0 result1
result2 result3 result4 result5 return reversed rng_state round rstd running_mean running_var
runtime_validation_disabled save_invstd save_mean save_var scale self self_or_result set setattr
sign slice softmax_logsumexp solution sorted source src state staticmethod str sum super target
target_lengths targets tau tensor tensor1 tensor2 total_weight try tuple type unused v value values
vars vec vec1 vec2 weight weight0 weight1 weight2 weight3 while with x1 x2 yield zero_point zip
)";

}  // namespace plimsoll::redaction
